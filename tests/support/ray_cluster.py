"""A Ray cluster on this machine: a head that flies nothing and two nodes of one processor each.

    python ray_cluster.py      prints the address, then executes the commands on its standard input: node, head

`node` kills a node, `head` the head, both as a power cut would; at the end of the input everything is killed.
"""

import sys

from ray.cluster_utils import Cluster

SMALL = {"object_store_memory": 80 * 1024**2, "include_dashboard": False, "node_ip_address": "127.0.0.1"}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
    nodes = [cluster.add_node(num_cpus=1, **SMALL) for _ in range(2)]
    print("address", cluster.address, flush=True)
    try:
        for line in sys.stdin:
            node = cluster.head_node if line.strip() == "head" else nodes.pop()
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
            print("killed", flush=True)
    finally:
        for node in [*nodes, cluster.head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)


main()
