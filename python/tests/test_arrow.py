"""Record batches: the results of the command, batch by batch, in Spark, Ray and Dask."""

import itertools
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pervade.arrow
from pervade import VaDE
from pervade.arrow import assigner

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table with an id, numbers, a category and gaps in four Parquet parts, a model of it, and the command's results."""
    folder = tmp_path_factory.mktemp("arrow")
    rng = np.random.default_rng(0)
    n = 400
    centres = rng.integers(0, 2, n)
    a, b = (rng.normal(0, 1, n) + 4 * centres for _ in range(2))
    b[::17] = np.nan
    kind = np.array(["red", "green", "blue"])[(centres + rng.integers(0, 2, n)) % 3]
    table = pa.table({"id": np.arange(n), "a": a, "b": pa.array(b, mask=np.isnan(b)), "kind": kind})
    (folder / "rows").mkdir()
    for i in range(4):
        pq.write_table(table.slice(100 * i, 100), folder / f"rows/{i}.parquet")
    pq.write_table(table, folder / "all.parquet")
    flags = ["--hidden", "8", "--latents", "2", "--pretrain-epochs", "2", "--epochs", "1", "--device", "cpu"]
    command("fit", folder / "all.parquet", "-k", "2", "--out", folder / "m.pervade", *flags)
    out = folder / "c.parquet"
    command("assign", folder / "m.pervade", folder / "all.parquet", "--probabilities", "--out", out, "--device", "cpu")
    return folder, table, pq.read_table(out)


def command(*arguments):
    subprocess.run([sys.executable, "-m", "pervade", *map(str, arguments)], check=True, capture_output=True)


def same(found, wanted):
    """Whether all columns of the result are the command's, to the bit."""
    found = found.sort_by("id")
    assert found.column("id").to_pylist() == [int(i) for i in wanted.column("id").to_pylist()]
    for name in wanted.column_names[1:]:
        mine, theirs = found.column(name).to_numpy(), wanted.column(name).to_numpy()
        assert mine.astype(theirs.dtype).tobytes() == theirs.tobytes(), name
    return True


def test_batches_give_what_the_command_gives(files):
    folder, table, wanted = files
    clusters = assigner(folder / "m.pervade", probabilities=True, keep={"id": "bigint"})
    found = pa.Table.from_batches(clusters(table.to_batches(max_chunksize=33)), clusters.schema)
    assert same(found, wanted)
    # Columns in any order, and others among them.
    turned = table.select(["kind", "b", "id", "a"]).append_column("more", [["x"] * table.num_rows])
    assert same(clusters.table(turned), wanted)
    assert clusters.ddl == "id bigint, cluster int, probability float, cluster_0 float, cluster_1 float"
    assert clusters.schema.names == ["id", "cluster", "probability", "cluster_0", "cluster_1"]
    assert list(clusters(table.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]))[0].num_rows == 0


def test_it_travels_and_loads_the_model_once(files, monkeypatch):
    folder, table, wanted = files
    clusters = assigner(str(folder / "m.pervade"), probabilities=True, keep={"id": "bigint"})
    loads = itertools.count()
    load = pervade.arrow._core.Model.load

    class Counting:
        @staticmethod
        def load(path):
            next(loads)
            return load(path)

    monkeypatch.setattr(pervade.arrow, "_LOADED", {})
    monkeypatch.setattr(pervade.arrow._core, "Model", Counting)
    copies = [pickle.loads(pickle.dumps(clusters)) for _ in range(3)]
    assert all(same(copy.table(table), wanted) for copy in copies)
    assert next(loads) == 1


def test_an_estimator_travels_with_its_bytes(rows):
    vade = VaDE(3, hidden=(16,), latents=2, pretrain_epochs=5, epochs=1, random_state=0, device="cpu").fit(rows)
    clusters = pickle.loads(pickle.dumps(assigner(vade)))
    table = pa.table({f"x{j}": rows[:, j] for j in range(rows.shape[1])})
    assert clusters.table(table).column("cluster").to_numpy().tolist() == vade.predict(rows).tolist()
    with pytest.raises(ValueError, match="4 columns, but the model was fitted on 5"):
        clusters.table(table.select([0, 1, 2, 3]))


def test_bad_columns_are_named(files):
    folder, table, _ = files
    with pytest.raises(ValueError, match="missing: `kind`"):
        assigner(folder / "m.pervade").table(table.drop_columns(["kind"]))
    with pytest.raises(ValueError, match="`keep` names 'nothing'"):
        assigner(folder / "m.pervade", keep={"nothing": "int"}).table(table)
    with pytest.raises(ValueError, match="must be one of string, bigint"):
        assigner(folder / "m.pervade", keep={"id": "long"})
    with pytest.raises((OSError, ValueError), match="none.pervade"):
        assigner(folder / "none.pervade")


def spark(master):
    """A session of Spark; skips the test where there is none."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("pervade").config("spark.ui.enabled", "false")
    assert pyspark
    return builder.config("spark.executor.memory", "512m").config("spark.driver.host", "localhost").getOrCreate()


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,512]"])
def test_spark_gives_what_the_command_gives(files, master, monkeypatch):
    folder, _, wanted = files
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = spark(master)
    try:
        frame = session.read.parquet(str(folder / "rows")).repartition(3)
        clusters = assigner(folder / "m.pervade", probabilities=True, keep={"id": "bigint"})
        found = frame.mapInArrow(clusters, clusters.ddl).toArrow()
        assert same(found.cast(clusters.schema), wanted)
    finally:
        session.stop()


def test_dask_gives_what_the_command_gives(files):
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    folder, table, wanted = files
    clusters = assigner(folder / "m.pervade", probabilities=True, keep={"id": "bigint"})
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)
    found = frame.map_partitions(clusters.frame, meta=clusters.meta).compute(scheduler="synchronous")
    assert same(pa.Table.from_pandas(found, preserve_index=False), wanted)


def test_ray_gives_what_the_command_gives(files):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray is installed without its data sets")
    folder, _, wanted = files
    clusters = assigner(folder / "m.pervade", probabilities=True, keep={"id": "bigint"})
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        rows = ray.data.read_parquet(str(folder / "rows"))
        found = pa.concat_tables(ray.get(rows.map_batches(clusters.table, batch_format="pyarrow").to_arrow_refs()))
        assert same(found, wanted)
    finally:
        ray.shutdown()
