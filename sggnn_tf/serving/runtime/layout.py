"""What the files and the signature of a served model are called."""

CARD, SCHEMA = "model.json", "schema.pbtxt"
WARMUP = "assets.extra/tf_serving_warmup_requests"
DEFAULT = "serving_default"
