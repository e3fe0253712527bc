"""Execution of a run: shards of work, their results on disk, and the processes or machines that run them.

    shards.py        work cut into shards, run in the order of their dependencies
    shard_results.py results on disk, with checksums
    progress.py      progress of a run as lines of text
    workers.py       the interface of workers, and their common code
    local_workers.py workers that are this process, or other processes of this machine
    dask_cluster.py  workers of a Dask cluster
    rw_lock.py       a readers-writer lock

Nothing here knows what a shard computes.
"""
