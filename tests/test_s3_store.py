"""One store of executables, profiles and results at a real S3 server (moto's), by processes of their own: written,
read, in a bucket that may only be read, and with the server gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import requests
from moto.server import ThreadedMotoServer

from tests.programs_in_child import ours, run
from tfxla_cluster.profiles.profile import Counts, from_json

PROGRAM = """
import json, tensorflow as tf, tfxla_cluster
f = tf.function(lambda x: tf.nn.softmax(x * 2.0) + 1.0, jit_compile=True)
out = [float(tf.reduce_sum(f(tf.ones([n, 3])))) for n in SIZES]
stats = tfxla_cluster.stats()
print(json.dumps({"out": out, **{key: stats[key] for key in ("compilations", "cache_hit_reasons", "internal_errors")}}))
"""
ROOT = {"AWS_ACCESS_KEY_ID": "root", "AWS_SECRET_ACCESS_KEY": "root"}
READS = [{"Effect": "Allow", "Action": ["s3:Get*", "s3:List*", "s3:Head*"], "Resource": "*"}]


class Server:
    """Of S3 and of who may do what, on this machine."""

    def __init__(self) -> None:
        self.moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.moto.start()
        host, port = self.moto.get_host_and_port()
        self.url = f"http://{host}:{port}"
        self.s3 = self.client("s3")

    def client(self, name: str) -> Any:
        keys = {name.lower(): value for name, value in ROOT.items()}
        return boto3.client(name, endpoint_url=self.url, region_name="us-east-1", **keys)

    def reader(self) -> dict[str, str]:
        """The variables of a user who may read, and nothing else; from now on everybody is asked who he is."""
        iam = self.client("iam")
        iam.create_user(UserName="reader")
        policy = json.dumps({"Version": "2012-10-17", "Statement": READS})
        iam.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=policy)
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        self.asks(True)
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def asks(self, who: bool) -> None:
        requests.post(f"{self.url}/moto-api/reset-auth", data="0" if who else "inf", timeout=10).raise_for_status()

    def bucket(self, name: str) -> str:
        self.s3.create_bucket(Bucket=name)
        return f"s3://{name}/kept"

    def files(self, bucket: str) -> dict[str, bytes]:
        found = self.s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {o["Key"]: self.s3.get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in found}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.moto.stop()


def called(server: Server, store: str, *sizes: int, **variables: str) -> tuple[dict[str, Any], list[str]]:
    """What a process finds that calls the function with these sizes, and what it says."""
    known = {"AWS_ENDPOINT_URL": server.url, "AWS_DEFAULT_REGION": "us-east-1", "TFXLA_JOB_ID": "job", **ROOT}
    done = run(PROGRAM.replace("SIZES", repr(sizes)), f"--tfxla_store={store}", **{**known, **variables})
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["out"] == [4.0 * n for n in sizes]
    assert found["internal_errors"] == 0
    return found, ours(done.stderr)


@pytest.fixture(scope="module")
def filled(server: Server) -> dict[str, bytes]:
    """The files that a process left which saw three sizes."""
    found, said = called(server, server.bucket("filled"), 8, 16, 24)
    assert (found["compilations"], said) == (2, [])
    return server.files("filled")


def test_what_is_written(filled: dict[str, bytes]) -> None:
    """Nothing half made; of the profile also the third size, which is written when the program ends."""
    kinds = {name.split("_")[3] for name in filled if name.endswith(".bin")}
    assert kinds >= {"executable", "lowered", "sizes"}
    assert not [name for name in filled if name.endswith(".tmp")]
    profile = from_json(filled["kept/profiles/job.profile.json"]).functions["<lambda> of 1"]
    assert profile.inputs["x"].axes == (Counts({8: 1, 16: 1, 24: 1}), Counts({3: 3}))


def test_the_next_process_reads_it(server: Server, filled: dict[str, bytes]) -> None:
    found, said = called(server, "s3://filled/kept", 8, 16)
    assert (found["compilations"], said) == (0, [])
    assert "disk" in found["cache_hit_reasons"]


def test_the_profile_alone(server: Server, filled: dict[str, bytes]) -> None:
    """The first module is for all sizes."""
    store, name = server.bucket("profile"), "kept/profiles/job.profile.json"
    server.s3.put_object(Bucket="profile", Key=name, Body=filled[name])
    found, said = called(server, store, 24, 5)
    assert (found["compilations"], said) == (1, [])


def test_a_bucket_that_may_only_be_read(server: Server, filled: dict[str, bytes]) -> None:
    """What is new is compiled, said once, and what is kept is read on."""
    before, reader = server.files("filled"), server.reader()
    try:
        found, (line,) = called(server, "s3://filled/kept", 1, 24, **reader)
    finally:
        server.asks(False)
    assert found["compilations"] == 1
    assert "the store s3://filled/kept cannot be written" in line
    assert "going on without it" in line
    assert server.files("filled") == before


def test_a_bucket_that_is_not_there(server: Server) -> None:
    """It is not made either."""
    found, said = called(server, "s3://nobody/kept", 8, 16)
    assert found["compilations"] == 2
    assert any("the store s3://nobody/kept cannot be written" in line for line in said)
    assert len(said) <= 2
    assert "nobody" not in [bucket["Name"] for bucket in server.s3.list_buckets()["Buckets"]]


def test_a_server_that_is_gone() -> None:
    """Said once of each kind; one attempt waits for all."""
    gone = Server()
    gone.moto.stop()
    found, said = called(gone, "s3://gone/kept", 8, 16, 1)
    assert found["compilations"] == 3
    assert "the store s3://gone/kept cannot be read" in said[0]
    assert "job.profile.json: not read, as its server could not be reached" in said[1]
    assert len(said) <= 3
