# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ends while daemon threads queue functions by cmwq_cq_execute(), for which the program has no items that it could disable.

The workqueue is destroyed before the interpreter ends, as docs/c.md shows. Without that line about half of the runs end by SIGSEGV, with Python 3.11.
"""

import atexit
import ctypes
import sys
import threading
import time

lib = ctypes.CDLL(sys.argv[1])
Pointer = ctypes.c_void_p
Function = ctypes.CFUNCTYPE(ctypes.c_int64, Pointer)
lib.cmwq_alloc_workqueue.restype = Pointer
lib.cmwq_cq_create.argtypes = [ctypes.c_uint, ctypes.c_size_t]
lib.cmwq_cq_create.restype = Pointer
lib.cmwq_cq_execute.argtypes = [Pointer, Pointer, Function, Pointer, ctypes.c_uint64]
lib.cmwq_cq_drain.argtypes = [Pointer, Pointer, ctypes.c_size_t]
lib.cmwq_destroy_workqueue.argtypes = [Pointer]

wq = lib.cmwq_alloc_workqueue(b"python", 2, 0)
cq = lib.cmwq_cq_create(0, 4096)
assert wq and cq
ran = threading.Semaphore(0)


@Function
def works(_):
    ran.release()
    # So that many are queued when the interpreter ends.
    time.sleep(0.0005)
    return 1


def queues():
    entries = (ctypes.c_uint64 * 512)()
    while True:
        lib.cmwq_cq_execute(cq, wq, works, None, 1)
        lib.cmwq_cq_drain(cq, entries, 256)


ctypes.pythonapi.Py_IncRef(ctypes.py_object(works))
# What daemon threads queue afterwards is refused, with a warning.
atexit.register(lib.cmwq_destroy_workqueue, wq)
for _ in range(3):
    threading.Thread(target=queues, daemon=True).start()
for _ in range(100):
    assert ran.acquire(timeout=60)
