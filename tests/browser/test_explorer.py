"""The explorer in a browser shows Python's numbers, obeys the keyboard and is legible."""

import itertools

import pytest
import torch

import noisebound as nb
from noisebound.pages.explorer import LOSSES, PARAMETERS, write_explorer
from watched_page import contrasts_of

pytestmark = pytest.mark.browser

EQUAL = {"rel": 0, "abs": 1e-6}
PARAMETER_VALUES = {"a": (0.01, 0.4, 0.7, 0.99, 1.0), "A": (0.0, 0.5, 8.0, 20.0)}
CLASSES = (2, 3, 10, 47, 200, 1000)
SCHEMES = ("light", "dark")
LOSS_NAMES = list(LOSSES)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    write_explorer(path)
    return path


def parameter_choices(loss):
    names = [each.name for each in PARAMETERS if f"{{{each.name}}}" in LOSSES[loss]]
    values = [PARAMETER_VALUES[name] for name in names]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


def settings_of(loss):
    for parameters, classes in itertools.product(parameter_choices(loss), CLASSES):
        most = (classes - 1) / classes
        for rate in (0.0, 1e-3, 0.1, 0.4, 0.5 * most, 0.95 * most, most):
            yield {"rate": rate, "classes": classes} | parameters


def or_none(function, *arguments):
    """Return what the function returns; None if the library refuses, as the page has null then."""
    try:
        return function(*arguments)
    except ValueError:
        return None


def as_list(vector):
    return None if vector is None else vector.tolist()


def expected(name, setting):
    """Return the library's bound, interval, and noise model at both noise vectors."""
    rate, classes = setting["rate"], setting["classes"]
    vectors = nb.symmetric_noise(rate, classes), nb.pairwise_noise(rate, classes)
    nothing = {"bound": None, "interval": None, "forward": None, "inverse": [None, None]}
    loss = or_none(eval, LOSSES[name].format(**setting), {"nb": nb})
    if loss is None:
        return nothing
    found = nothing | {
        "bound": or_none(nb.noise_bound, loss, rate, classes),
        "interval": or_none(nb.entropy_interval, loss, rate, classes),
    }
    if loss.noise_model is not None:
        found["forward"] = as_list(loss.noise_model.forward(vectors[0]))
        found["inverse"] = [as_list(or_none(loss.noise_model.inverse, p)) for p in vectors]
    return found


COMPUTE = """([name, settings]) => settings.map(setting => {
    const { rate, classes } = setting, loss = createLoss(name, setting);
    const vectors = [symmetricNoise(rate, classes), pairwiseNoise(rate, classes)];
    const interval = entropyInterval(loss, rate, classes);
    return {
        bound: noiseBound(loss, rate, classes),
        interval: interval.includes(null) ? null : interval,
        forward: loss.noiseModel?.forward(vectors[0]) ?? null,
        inverse: vectors.map(p => loss.noiseModel?.inverse(p) ?? null),
    };
})"""


def assert_close(found, wanted, where):
    assert (found is None) == (wanted is None), where
    if wanted is not None:
        wanted, found = (torch.tensor(values, dtype=torch.float64) for values in (wanted, found))
        torch.testing.assert_close(
            found, wanted, rtol=0, atol=1e-6, msg=lambda text: f"{where}: {text}"
        )


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers_are_python_s(open_page, path, loss):
    settings = list(settings_of(loss))
    computed = open_page(path).evaluate(COMPUTE, [loss, settings])
    for setting, found in zip(settings, computed, strict=True):
        wanted = expected(loss, setting)
        for name in ("bound", "interval"):
            assert_close(found[name], wanted[name], f"{name} at {setting}")
        if wanted["bound"] is None:  # the loss cannot be made, so Python has no noise model of it
            continue
        assert_close(found["forward"], wanted["forward"], f"f at {setting}")
        for k in (0, 1):
            assert_close(found["inverse"][k], wanted["inverse"][k], f"f⁻¹ at {setting}")


FOLLOW = """async fragments => {
    const shown = [];
    for (const fragment of fragments) {  // as links within the page do
        await new Promise(resolve => {
            addEventListener("hashchange", resolve, { once: true });
            location.hash = fragment;
        });
        shown.push([byId("python").innerText, byId("bound").innerText]);
    }
    return shown;
}"""


CHOOSE_EACH = """names => names.map(name => {
    byId("loss").value = name;
    byId("loss").dispatchEvent(new Event("change"));
    return %s;
})"""


def shown(page):
    names = ("bound", "lower", "upper", "inverse")
    return {name: page.inner_text(f"#{name}") for name in names}


def test_what_it_shows_is_what_its_python_gives(open_page, path):
    places = ((0.0, 10), (0.25, 101), (0.5, 2))
    settings = [(name, *place) for name in LOSS_NAMES for place in places]
    fragments = [f"loss={n}&rate={r}&classes={c}&a=0.3&A=2.5" for n, r, c in settings]
    found = open_page(path).evaluate(FOLLOW, fragments)
    for (name, rate, classes), (python, text) in zip(settings, found, strict=True):
        line = python.replace("\n", "")
        value = or_none(eval, line, {"nb": nb})
        if value is None:
            # There is nothing to invert, or less noise than the loss takes out.
            assert text == "none"
            assert name == "nls" or (name, rate, classes) == ("backward", 0.5, 2)
        else:
            assert float(text) == pytest.approx(value, **EQUAL), line


def test_it_opens_with_the_paper_s_sce(open_page, path):
    loss = nb.SymmetricCrossEntropy()
    lower, upper = nb.entropy_interval(loss, 0.4, 10)
    clean = loss.noise_model.inverse(nb.symmetric_noise(0.4, 10))
    assert {name: float(text) for name, text in shown(open_page(path)).items()} == pytest.approx(
        {"bound": upper, "lower": lower, "upper": upper, "inverse": clean[0].item()}, **EQUAL
    )


def bound_of(page):
    return float(page.inner_text("#bound"))


def drawn(page):
    return page.eval_on_selector_all("figure > svg", "plots => plots.map(plot => plot.innerHTML)")


def test_the_keyboard_moves_everything(open_page, path):
    page = open_page(path)
    before, described = drawn(page), page.get_attribute("#sensitivity-plot svg", "aria-label")
    page.focus("#rate-slider")
    page.keyboard.press("ArrowRight")
    assert bound_of(page) == pytest.approx(
        nb.noise_bound(nb.SymmetricCrossEntropy(), 0.41, 10), **EQUAL
    )
    assert page.input_value("#rate-box") == "0.41"
    assert all(new != old for new, old in zip(drawn(page), before, strict=True))
    assert page.get_attribute("#sensitivity-plot svg", "aria-label") != described
    page.focus("#classes-slider")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#classes-slider", "aria-valuetext") == "11"
    page.focus("#A-slider")
    page.keyboard.press("ArrowLeft")
    assert bound_of(page) == pytest.approx(
        nb.noise_bound(nb.SymmetricCrossEntropy(A=7.9), 0.41, 11), **EQUAL
    )
    assert page.evaluate("location.hash") == "#loss=sce&rate=0.41&classes=11&A=7.9"


def test_boxes_take_what_the_sliders_have_no_stop_for(open_page, path):
    page = open_page(path)
    page.fill("#classes-box", "47")
    page.fill("#rate-box", "0.123")
    assert bound_of(page) == pytest.approx(
        nb.noise_bound(nb.SymmetricCrossEntropy(), 0.123, 47), **EQUAL
    )


@pytest.mark.parametrize("nonsense", ["", "7", "-0.1"])
def test_boxes_do_not_take_nonsense(open_page, path, nonsense):
    page = open_page(path)
    before = bound_of(page)
    page.fill("#rate-box", nonsense)
    assert bound_of(page) == before
    page.press("#rate-box", "Tab")
    assert page.input_value("#rate-box") == "0.4"


def test_fewer_classes_bear_less_noise(open_page, path):
    page = open_page(path, "#rate=0.8")
    page.fill("#classes-box", "2")
    assert page.input_value("#rate-box") == "0.5"
    assert page.get_attribute("#rate-slider", "max") == "0.5"


def test_a_loss_has_its_own_parameters(open_page, path):
    sliders = """["a", "A"].filter(key => byId(`${key}-slider`).checkVisibility())"""
    found = open_page(path).evaluate(CHOOSE_EACH % sliders, LOSS_NAMES)
    own = {"gce": ["a"], "sce": ["A"]}
    assert found == [own.get(name, []) for name in LOSS_NAMES]


def test_the_address_holds_the_setting(open_page, path):
    page = open_page(path)
    page.select_option("#loss", "gce")
    page.fill("#a-box", "0.7")
    page.press("#a-box", "Tab")
    fragment = page.evaluate("location.hash")
    again = open_page(path, fragment)
    assert shown(again) == shown(page)
    assert again.input_value("#a-box") == "0.7"
    assert bound_of(again) == pytest.approx(
        nb.noise_bound(nb.GeneralizedCrossEntropy(a=0.7), 0.4, 10), **EQUAL
    )


@pytest.mark.parametrize("fragment", ["#loss=none&rate=x", "#%", "#loss=__proto__", "#classes="])
def test_an_address_of_nonsense_is_the_beginning(open_page, path, fragment):
    assert shown(open_page(path, fragment)) == shown(open_page(path))


def test_copy(open_page, path):
    page = open_page(path)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy")
    page.wait_for_function("() => document.getElementById('copied').textContent === 'copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (
        "nb.noise_bound(nb.SymmetricCrossEntropy(A=8.0), noise_rate=0.4, num_classes=10)"
    )


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_it_fits(open_page, path, width):
    ends = """[
        document.documentElement.scrollWidth,
        ...[...document.querySelectorAll("figure text")].map(
            text => text.getBoundingClientRect().right),
    ]"""
    found = open_page(path, width=width).evaluate(CHOOSE_EACH % ends, LOSS_NAMES)
    assert min(map(len, found)) > 20
    assert max(map(max, found)) <= width


@pytest.mark.parametrize("color_scheme", SCHEMES)
def test_texts_and_curves_stand_out(open_page, path, color_scheme):
    page = open_page(path, "#loss=mae", color_scheme=color_scheme)
    texts = "h1, h2, p, label, .hint, select, input[type=number], code, dt, dd, button, li, text"
    contrasts = contrasts_of(page, texts)
    assert len(contrasts) > 50
    assert min(contrasts) >= 4.5
    curves = contrasts_of(page, "figure > svg .curve, .frame")
    assert len(curves) == 2 + 4 + 3 + 3
    assert min(curves) >= 3


def test_schemes_differ(open_page, path):
    grounds = {
        open_page(path, color_scheme=scheme).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in SCHEMES
    }
    assert len(grounds) == 2


def test_plots_are_described(open_page, path):
    page = open_page(path)
    described = page.eval_on_selector_all(
        "svg[role=img]", "plots => plots.map(plot => plot.getAttribute('aria-label'))"
    )
    assert len(described) == 3
    assert "At 0.4 they are 4.293 and 5.495." in described[0]


def test_without_scripts_it_says_what_it_needs(open_page, path):
    page = open_page(path, scripts=False)
    assert "needs JavaScript" in page.inner_text("noscript")
