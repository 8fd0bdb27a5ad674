"""A process of `process_pool` for its tests: answers (its pid, the job), ends over the job 'end', sleeps over a number
of seconds."""

from __future__ import annotations

import os
import sys
import time

from tfxla_cluster.codegen.triton.process_pool import serve


def answer(job: object) -> tuple[int, object]:
    if job == "end":
        os._exit(1)
    if isinstance(job, float):
        time.sleep(job)
    print("this is not an answer")
    return os.getpid(), job


if __name__ == "__main__":
    serve(answer, sys.argv[1:])
