import itertools

import matplotlib.image
import pytest
from matplotlib.colors import to_rgba
from matplotlib.container import BarContainer, ErrorbarContainer

from sggnn_tf.analysis import style, table_picture
from sggnn_tf.models import MODELS
from sggnn_tf.training.tables import Entry

ENTRIES = [
    Entry("rgcn", "T = 3", (90.0, 80.0), 96.7),
    Entry("rgcn", "T = 10", (7.0,), 6.6),
    Entry("sggnn-rv-gat", "T = 3", (98.0, 99.0, 97.0), 98.4),
    Entry("sggnn-rv-gat", "T = 3, 50 each", (100.0,), None),
]


@pytest.fixture
def drawn(monkeypatch):
    """Draws entries and returns the axes, instead of writing them."""
    figures = []
    monkeypatch.setattr(table_picture, "save", lambda figure, path, about: figures.append(figure))

    def draw(entries):
        table_picture.draw_table(entries, "a table", "nowhere.png")
        (axes,) = figures.pop().axes
        return axes

    return draw


def bars(axes):
    return [container[0] for container in axes.containers if isinstance(container, BarContainer)]


def middle(bar):
    return bar.get_x() + bar.get_width() / 2


def test_the_picture_is_a_png_that_is_not_empty(tmp_path):
    table_picture.draw_table(ENTRIES, "a table", tmp_path / "table.png")
    pixels = matplotlib.image.imread(tmp_path / "table.png")
    assert min(pixels.shape[:2]) > 300
    colours = {tuple(pixel) for pixel in (pixels[::4, ::4, :3] * 255).round().astype(int).reshape(-1, 3).tolist()}
    for model in ("rgcn", "sggnn-rv-gat"):
        assert tuple(round(255 * part) for part in to_rgba(style.colour(model))[:3]) in colours


def test_a_bar_is_the_mean_of_its_model_in_its_column(drawn):
    axes = drawn(ENTRIES)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["T = 3", "T = 10", "T = 3, 50 each"]
    found = [(round(middle(bar)), bar.get_height(), bar.get_facecolor()) for bar in bars(axes)]
    expected = [
        (0, 85.0, to_rgba(style.colour("rgcn"))),
        (1, 7.0, to_rgba(style.colour("rgcn"))),
        (0, 98.0, to_rgba(style.colour("sggnn-rv-gat"))),
        (2, 100.0, to_rgba(style.colour("sggnn-rv-gat"))),
    ]
    assert found == expected
    assert axes.get_title() == "a table"


def test_bars_do_not_lie_on_each_other(drawn):
    entries = [Entry(model, column, (50.0,), None) for column in ("node", "graph") for model in MODELS]
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars(drawn(entries)))
    assert len(spans) == 2 * len(MODELS)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_a_spread_is_drawn_where_there_are_several_seeds(drawn):
    axes = drawn(ENTRIES)
    containers = [container for container in axes.containers if isinstance(container, ErrorbarContainer)]
    found = [container[2][0].get_segments()[0].tolist() for container in containers]
    assert len(found) == 2
    rgcn, _, ours, _ = bars(axes)
    for segment, bar, mean, spread in zip(found, (rgcn, ours), (85, 98), (50**0.5, 1), strict=True):
        expected = [(middle(bar), mean - spread), (middle(bar), mean + spread)]
        assert [tuple(point) for point in segment] == [pytest.approx(point) for point in expected]


def test_the_value_of_the_paper_is_a_mark_over_its_bar(drawn):
    axes = drawn(ENTRIES)
    errors = [lines for each in axes.containers if isinstance(each, ErrorbarContainer) for lines in each[2]]
    marks = [lines.get_segments()[0] for lines in axes.collections if lines not in errors]
    assert [mark[0][1] for mark in marks] == [96.7, 6.6, 98.4]
    for (start, _), bar in zip((mark[:, 0] for mark in marks), bars(axes), strict=False):
        assert start < bar.get_x()
    for mark, bar in zip(marks, bars(axes), strict=False):
        assert mark[:, 0].mean() == pytest.approx(middle(bar))
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["rgcn", "sggnn-rv-gat", "in the paper"]


def test_the_legend_names_the_paper_only_if_there_is_a_mark(drawn):
    axes = drawn([Entry("rgcn", "T = 4", (50.0,), None)])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["rgcn"]


def test_every_model_has_a_colour_of_its_own():
    assert len({style.colour(model) for model in MODELS}) == len(MODELS)


def test_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(ValueError, match="no results to draw"):
        table_picture.draw_table([], "a table", tmp_path / "table.png")
    assert not list(tmp_path.iterdir())


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere/table\.png cannot be written"):
        table_picture.draw_table(ENTRIES, "a table", tmp_path / "nowhere" / "table.png")
