#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a platform of SimGrid: h200.py RANKS. Nodes of 8 GPUs, one rank per GPU, as docs/scale.md describes them.

Two GPUs of a node meet through their NVLinks, two of different nodes through the InfiniBand adapter of each. The switches
between nodes have full bisection bandwidth and no contention of their own.
"""

import sys

GPUS = 8
LINKS = {"nvlink": ("450GBps", "0.5us"), "infiniband": ("50GBps", "0.75us")}

print(
    """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<config>
<prop id="smpi/bw-factor" value="0:1"/>
<prop id="smpi/lat-factor" value="0:1"/>
<prop id="network/crosstraffic" value="0"/>
</config>
<zone id="machine" routing="Floyd">"""
)
num_nodes = -(-int(sys.argv[1]) // GPUS)


def route(source, target, *links):
    """In one direction."""
    inner = "".join(f'<link_ctn id="{link}" direction="{way}"/>' for link, way in links)
    print(f'<route src="{source}" dst="{target}" symmetrical="NO">{inner}</route>')


for node in range(num_nodes):
    gpus = range(GPUS * node, GPUS * node + GPUS)
    print(f'<zone id="zone-{node}" routing="Full">')
    for gpu in gpus:
        print(f'<host id="node-{gpu}" speed="1Gf"/>')
    print(f'<router id="adapters-{node}"/>')
    for gpu in gpus:
        for kind, (bandwidth, latency) in LINKS.items():
            print(f'<link id="{kind}-{gpu}" bandwidth="{bandwidth}" latency="{latency}" sharing_policy="SPLITDUPLEX"/>')
        print(f'<link id="own-{gpu}" bandwidth="4800GBps" latency="0us" sharing_policy="FATPIPE"/>')
    for gpu in gpus:
        print(f'<route src="node-{gpu}" dst="node-{gpu}"><link_ctn id="own-{gpu}"/></route>')
        route(f"node-{gpu}", f"adapters-{node}", (f"infiniband-{gpu}", "UP"))
        route(f"adapters-{node}", f"node-{gpu}", (f"infiniband-{gpu}", "DOWN"))
        for other in gpus:
            if other != gpu:
                route(f"node-{gpu}", f"node-{other}", (f"nvlink-{gpu}", "UP"), (f"nvlink-{other}", "DOWN"))
    print("</zone>")
print('<zone id="core" routing="Full"><router id="switches"/></zone>')
print('<link id="trunk" bandwidth="50GBps" latency="0us" sharing_policy="FATPIPE"/>')
for node in range(num_nodes):
    print(
        f'<zoneRoute src="zone-{node}" dst="core" gw_src="adapters-{node}" gw_dst="switches">'
        '<link_ctn id="trunk"/></zoneRoute>'
    )
print("</zone>\n</platform>")
