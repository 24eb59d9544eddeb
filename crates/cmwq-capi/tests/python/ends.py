# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ends while callbacks are on their way: up to 3.13 the interpreter then ends each thread that wants to run Python code, by pthread_exit().

With an argument behind the library's path the program stops its items before, as docs/c.md shows.
"""

import atexit
import ctypes
import sys
import threading

lib = ctypes.CDLL(sys.argv[1])
WorkFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Work(ctypes.Structure):
    _fields_ = [
        ("state", ctypes.c_uint64),
        ("links", ctypes.c_void_p * 2),
        ("func", WorkFunction),
        ("rest", ctypes.c_uint64 * 2),
    ]


lib.cmwq_alloc_workqueue.restype = ctypes.c_void_p
for name in "queue_work", "cancel_work_sync", "disable_work_sync", "destroy_workqueue":
    getattr(lib, "cmwq_" + name).argtypes = [ctypes.c_void_p] * (2 if name == "queue_work" else 1)

wq = lib.cmwq_alloc_workqueue(b"python", 2, 0)
assert wq
ran = threading.Semaphore(0)


@WorkFunction
def again(work):
    ran.release()
    lib.cmwq_queue_work(wq, work)


works = [Work(func=again) for _ in range(16)]
# The interpreter frees what is left when it ends, but items that are queued must stay where they are, and so must their function.
for kept in [again, *works]:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
if len(sys.argv) > 2:
    # Called in the opposite order: the workqueue goes when no item queues itself again.
    atexit.register(lib.cmwq_destroy_workqueue, wq)
    for work in works:
        atexit.register(lib.cmwq_disable_work_sync, ctypes.addressof(work))
for work in works:
    assert lib.cmwq_queue_work(wq, ctypes.addressof(work))
for _ in range(200):
    assert ran.acquire(timeout=60)
