"""The protocol as data: our runs are those of the paper."""

from pathlib import Path

import pytest

from noisebound.catalog import METHOD_NAMES
from noisebound.data import DATASETS
from noisebound.estimation import GivenRate
from noisebound.paper.presets import CPU, FEATURES, PAPER, Preset, find_preset
from noisebound.paper.protocol import BASELINES, BOUNDED, COLUMNS, METHODS, columns_of, find_columns
from noisebound.paper.reproduce import Request
from noisebound.paper.run import DataSources, Plan, RunConfig
from noisebound.training.objective import make_objective


def test_fourteen_rows_of_which_five_are_also_bounded():
    assert len(BASELINES) + len(BOUNDED) == 14
    assert len(METHODS) == 19
    assert {method.removesuffix("+b") for method in METHODS} <= set(METHOD_NAMES)


def test_the_columns_of_the_paper():
    assert [column.name for column in columns_of("table1")] == [
        "mnist-0.4",
        "mnist-0.6",
        "fashion-mnist-0.2",
        "fashion-mnist-0.4",
        "emnist-0.2",
        "emnist-0.4",
        "cifar10-0.2",
        "cifar10-0.4",
    ]
    assert len(columns_of("table2")) == 5
    assert len(columns_of("open-set")) == 3
    assert COLUMNS["nonuniform-emnist-0.6"].bound_classes == 2
    assert COLUMNS["animals-10n"].noise_rate == 0.11
    assert {column.dataset for column in COLUMNS.values()} <= set(DATASETS)


@pytest.mark.parametrize(
    ("column", "model", "epochs", "batch_size"),
    [
        ("mnist-0.4", "resnet18", 100, 300),
        ("emnist-0.2", "resnet18", 120, 300),
        ("cifar100-0.4", "resnet18", 120, 300),
        ("nonuniform-emnist-0.6", "resnet18", 120, 300),
        ("tiny-imagenet-0.2", "resnet34", 100, 200),
        ("animals-10n", "resnet34", 100, 200),
    ],
)
def test_the_papers_scale(column, model, epochs, batch_size):
    training = PAPER.training(COLUMNS[column], "gce+b", seed=0)
    assert (training.model, training.epochs, training.batch_size) == (model, epochs, batch_size)
    assert (training.learning_rate, training.drop_epoch, training.drop_factor) == (1e-4, 60, 0.6)


@pytest.mark.parametrize(("method", "rate"), [("mae", 1e-3), ("elr", 1e-2), ("ce", 1e-4)])
def test_the_papers_learning_rates(method, rate):
    assert PAPER.training(COLUMNS["mnist-0.4"], method, seed=0).learning_rate == rate


@pytest.mark.parametrize("preset", [PAPER, CPU, FEATURES], ids=lambda preset: preset.name)
@pytest.mark.parametrize("column", COLUMNS.values(), ids=lambda column: column.name)
def test_every_method_can_be_trained_on_every_column(preset, column):
    for method in METHODS:
        noise = GivenRate(column.noise_rate, column.num_classes, column.bound_classes)
        config = preset.training(column, method, 0)
        objective = make_objective(config, column.num_classes, 10, noise)
        assert (objective.bound is not None) == method.endswith("+b")


def test_the_grid_around_the_bound():
    wide = COLUMNS["asym-cifar100-0.2"].offsets
    assert (len(wide), wide[0], wide[-1]) == (25, -0.6, 0.6)
    assert all(round(20 * offset) / 20 == offset for offset in wide)


def test_every_option_of_a_training_is_a_setting():
    training = CPU.override(["weight_decay=0.1"]).training(COLUMNS["mnist-0.4"], "ce", seed=0)
    assert training.weight_decay == 0.1


def test_presets_survive_being_saved(tmp_path):
    path = tmp_path / "mine.json"
    changed = CPU.override(["epochs=3", "emnist.model=mlp"])
    path.write_text(changed.to_json())
    assert find_preset(str(path)) == changed


def test_a_setting_for_all_overrides_those_of_one_data_set():
    preset = PAPER.override(["epochs=7", "emnist.batch_size=50"])
    assert preset.settings_for("emnist").epochs == 7
    assert preset.settings_for("emnist").batch_size == 50
    assert preset.settings_for("mnist").batch_size == 300
    assert PAPER.settings_for("emnist").epochs == 120


def test_a_learning_rate_for_one_method_leaves_the_others():
    preset = PAPER.override(['learning_rates={"ce": 0.5}'])
    assert preset.settings.learning_rates == {"mae": 1e-3, "elr": 1e-2, "ce": 0.5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("epochs", "field=value"),
        ("epoch=3", "field=value, with a field out of model, epochs, batch_size"),
        ("epochs=0", "`epochs` must be greater than or equal to 1, got 0"),
        ("emnist.epochs=many", "`epochs` must be .*got 'many'"),
        ("emnsit.epochs=3", "no column has a data set 'emnsit'; there are mnist, "),
        ("learning_rate=Infinity", "`learning_rate` must be a finite number"),
        ('learning_rates={"ce": -1}', r"`learning_rates` must be .*greater than 0"),
        ('learning_rates={"cee": 1}', "unknown method 'cee': choose from mse, "),
    ],
)
def test_invalid_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        CPU.override([change])


def test_invalid_presets_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"neither a preset \(paper, cpu, features, heads\) nor a file"
    ):
        find_preset("gpu")
    (tmp_path / "y.json").write_text('{"name": "y", "for_dataset": {"mnist": {"epochs": 0}}}')
    with pytest.raises(ValueError, match="is not a preset: `epochs`"):
        find_preset(str(tmp_path / "y.json"))
    for name in ("epoch", "seed"):
        (tmp_path / "x.json").write_text(f'{{"name": "x", "settings": {{"{name}": 3}}}}')
        with pytest.raises(ValueError, match=f"is not a preset: `{name}`"):
            find_preset(str(tmp_path / "x.json"))


def test_losses_without_a_bound_have_no_offsets():
    request = Request("offsets", Plan(CPU, (0,), DataSources()), methods=["mae"])
    with pytest.raises(ValueError, match="unknown bounded loss 'mae': choose from ce, fce, gce"):
        request.chosen_methods()


def test_at_least_one_name_is_needed():
    plan = Plan(CPU, (0,), DataSources())
    with pytest.raises(ValueError, match="name at least one column"):
        Request("table1", plan, columns=[]).chosen_columns()
    with pytest.raises(ValueError, match="name at least one method"):
        Request("table1", plan, methods=[]).chosen_methods()


def test_unknown_columns_and_methods():
    with pytest.raises(ValueError, match=r"unknown column 'svhn': choose from mnist-0\.4, "):
        find_columns(["svhn"])
    with pytest.raises(ValueError, match=r"unknown method 'mse\+b': choose from mse, "):
        Request("table1", Plan(CPU, (0,), DataSources()), methods=["mse+b"]).chosen_methods()


def test_all_columns_of_a_data_set_by_its_name():
    names = [column.name for column in find_columns(["EMNIST", "mnist-0.4", "mnist"])]
    assert names == ["emnist-0.2", "emnist-0.4", "nonuniform-emnist-0.6", "mnist-0.4", "mnist-0.6"]


class TestPlan:
    plan = Plan(CPU, (0, 1), DataSources())
    column = COLUMNS["fashion-mnist-0.4"]

    def test_the_same_run_serves_several_tables(self):
        bounded = {*self.plan.runs(self.column, "ce+b")}
        assert bounded <= {*self.plan.offset_runs(self.column, "ce+b*")}
        assert bounded <= {*self.plan.rate_runs(self.column, "ce+b")}

    def test_how_many(self):
        runs = self.plan.table_runs([self.column], ["ce", "ce+b", "ce+b*"])
        assert len(set(runs)) == 2 * (1 + 9)
        assert len({run.key for run in runs}) == len(set(runs))

    def test_believed_rates_move_the_bound_and_not_the_noise(self):
        runs = self.plan.rate_runs(self.column, "ce+b")
        assert {run.noise_rate for run in runs} == {0.4}
        assert [run.training.noise_rate for run in runs[::2]] == list(self.column.swept_rates)

    def test_hashes_are_stable(self):
        """A changed default orphans all finished runs, so it must be intended."""
        assert self.plan.runs(self.column, "ce+b")[0].key == "02dc5125802e1743"

    def test_a_new_field_with_a_default_does_not_change_the_hash(self):
        class Later(RunConfig):
            tempo: str = "as before"

        run = self.plan.runs(self.column, "ce+b")[0]
        fields = dict(run)
        assert Later(**fields).key == run.key
        assert Later(**fields, tempo="fast").key != run.key

    def test_a_hash_follows_from_every_setting(self):
        def key(preset: Preset, sources: DataSources) -> str:
            return Plan(preset, (0,), sources).runs(self.column, "ce")[0].key

        here, other = DataSources(), DataSources(paths={"fashion-mnist": Path("mine")})
        keys = {
            key(CPU, here),
            key(PAPER, here),
            key(CPU.override(["epochs=3"]), here),
            key(CPU.override(["train_examples=99"]), here),
            key(CPU.override(["precision=bf16-mixed"]), here),
            key(CPU, other),
        }
        assert len(keys) == 6
        assert key(CPU, here) == key(CPU.override(["mnist.epochs=3"]), here)

    def test_hashes_depend_on_the_data_but_not_on_its_folder(self, tmp_path):
        one, two = (
            Plan(CPU, (0,), DataSources(data_dir, {"fashion-mnist": data_dir / "derived"}))
            for data_dir in (tmp_path / "a", tmp_path / "b")
        )
        run = one.runs(self.column, "ce")[0]
        assert run == two.runs(self.column, "ce")[0]
        assert run.source == "derived"
