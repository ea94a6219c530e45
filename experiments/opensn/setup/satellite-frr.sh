#!/bin/sh
# A satellite of system 65001 by FRR: as satellite.sh by BIRD, and side by side with it.
set -eu
. /setup/told.sh

# Of each station that it serves, a line: address of its port, its system.
stations() { peers | while read -r _ node class _ far; do [ "$class" != ground ] || echo "$far $(system_of "$node")"; done; }

configure() {
    own=$(field ipv4 $told/node.json)
    echo "route-map outside permit 10"
    echo " set tag 1"
    echo "route-map tagged permit 10"
    echo " match tag 1"
    areas | while read -r area port; do
        echo "interface $port"
        echo " ip ospf area $area"
        echo " ip ospf network point-to-point"
        echo " ip ospf hello-interval 15"
        echo " ip ospf dead-interval 90"
        # BIRD drops news of the same route within a second, and has them only when they are sent again.
        echo " ip ospf retransmit-interval 4"
    done
    echo "router ospf"
    echo " ospf router-id $own"
    echo " maximum-paths 1"
    echo " timers throttle spf 2000 2000 2000"
    # Lasers' addresses stay within an area.
    areas | cut -d' ' -f1 | sort -un | while read -r area; do echo " area $area range 10.128.0.0/9 not-advertise"; done
    echo "router bgp 65001"
    echo " bgp router-id $own"
    echo " no bgp ebgp-requires-policy"
    echo " timers bgp 10 30"
    echo " address-family ipv4 unicast"
    echo "  redistribute ospf route-map tagged"
    serve
}

# Sessions that came; routes from outside are told within only by who has some.
serve() {
    stations > /run/served
    echo "router bgp 65001"
    while read -r address system; do
        echo " neighbor $address remote-as $system"
        echo " neighbor $address timers connect 1"
        echo " neighbor $address advertisement-interval 0"
        echo " address-family ipv4 unicast"
        echo "  neighbor $address next-hop-self"
        echo " exit-address-family"
    done < /run/served
    echo "router ospf"
    if [ -s /run/served ]; then echo " redistribute bgp route-map outside"; else echo " no redistribute bgp"; fi
}

handed_over() {
    cp /run/served /run/gone
    {
        echo "router bgp 65001"
        while read -r address _; do echo " no neighbor $address"; done < /run/gone
        serve
    } > /run/change.conf
    # On a busy machine they have perhaps not come to open their sockets.
    until vtysh -f /run/change.conf > /run/configured 2>&1; do sleep 1; done
}

wait_for_turn
configure > /run/all.conf
for daemon in zebra ospfd bgpd; do
    /usr/lib/frr/$daemon -d -F traditional -A 127.0.0.1 -f /dev/null
done
until vtysh -f /run/all.conf > /run/configured 2>&1; do sleep 1; done
at_each_handover handed_over
