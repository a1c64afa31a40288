"""The command line on records in parts: folders, and interruptions."""

import gzip

import pytest
from cli_cases import assert_refused, fit

from mmech_rf import BatchTrainingClassifier, load_model


@pytest.fixture
def folder(files):
    """Give a folder with the fruit in two files, one of them compressed."""
    header, *lines = (files / "fruit.csv").read_text().splitlines()
    folder = files / "fruit"
    folder.mkdir()
    half = len(lines) // 2
    first, second = (
        "\n".join([header, *part, ""]) for part in (lines[:half], lines[half:])
    )
    (folder / "a.csv").write_text(first)
    (folder / "b.csv.gz").write_bytes(gzip.compress(second.encode()))
    return folder


def fit_folder(files, folder, *args):
    command, _, *rest = fit(files, "--depth", 3, *args)
    return (command, folder, *rest)


def test_a_folder_is_fitted_as_one_file(run, files, folder, released_numbers):
    for source in (files / "fruit.csv", folder):
        assert run(*fit_folder(files, source), "--force")[0] == 0
    assert released_numbers[0] == released_numbers[1] > 0
    assert type(load_model(files / "fruit.npz")) is BatchTrainingClassifier


def test_every_command_reads_folders_and_parquet_files(run, files, folder):
    csv = pytest.importorskip("pyarrow.csv")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = files / "fruit.parquet"
    parquet.write_table(csv.read_csv(files / "fruit.csv"), path)
    assert run(*fit_folder(files, path))[0] == 0
    predict = ("predict", files / "fruit.npz")
    expected = sorted(run(*predict, files / "fruit.csv")[1].split())
    check = ("schema", "check")
    majority = ("--methods", "majority", "--repeats", 1, "--quiet")
    for source in (folder, path):
        assert sorted(run(*predict, source)[1].split()) == expected
        assert run(*check, source, files / "fruit.json")[0] == 0
        data = ("--data", source, "--schema", files / "fruit.json")
        assert run("evaluate", *data, *majority)[0] == 0
        batch = ("predict-batch", source, folder, "--schema", files / "fruit.json")
        code, out, err = run(*batch, "--epsilon", 9, "--depth", 2)
        assert (code, len(out.split())) == (0, len(expected))
        assert ("these are the training records" in err) == (source == folder)


def test_columns_of_all_files_are_looked_at(run, files, folder):
    lines = (folder / "a.csv").read_text().splitlines()
    (folder / "a.csv").write_text("\n".join(f"{line},extra" for line in lines))
    outcome = run(*fit_folder(files, folder, "--extra-columns", "error"))
    assert_refused(outcome, "has 1 columns that the schema does not name: 'extra'")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("save", "what it paid for is spent"),
        ("count", "nothing was spent"),  # whatever an earlier command spent
        ("release", "nothing was spent"),
    ],
)
def test_an_interrupt_leaves_nothing(run, files, folder, method, said, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    before = set(files.iterdir())
    # As if a person had pressed the keys just then.
    monkeypatch.setattr(BatchTrainingClassifier, method, interrupted)
    outcome = run(*fit_folder(files, folder))
    assert outcome == (130, "", f"mmech-rf: interrupted; {said}\n")
    assert set(files.iterdir()) == before
