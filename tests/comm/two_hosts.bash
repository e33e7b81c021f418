# Two hosts on one machine, to be sourced: network name spaces with an Ethernet
# of GBITS between them, over which Open MPI sends as between any two machines.
# What the link has not sent in its last millisecond it may send at once.
# two_hosts GBITS FOLDER makes them (1: not permitted here), on_hosts
# COMMAND... runs on the first; its ranks are dealt to both, end_hosts takes
# them away.
host_a=pdl$$a host_b=pdl$$b

end_hosts() {
    ip netns del "$host_a" 2>/dev/null
    ip netns del "$host_b" 2>/dev/null
}

link() { # HOST ADDRESS GBITS
    ip -n "$1" link set lo up && ip -n "$1" addr add "$2/24" dev "$1" &&
        ip -n "$1" link set "$1" mtu 9000 up &&
        ip netns exec "$1" tc qdisc replace dev "$1" root tbf \
            rate "$3gbit" burst $((125000 * $3)) latency 100ms
}

two_hosts() { # GBITS FOLDER
    command -v ip >/dev/null && command -v tc >/dev/null || return 1
    {
        ip netns add "$host_a" && ip netns add "$host_b" &&
            ip link add "$host_a" netns "$host_a" type veth \
                peer name "$host_b" netns "$host_b" &&
            link "$host_a" 10.77.0.1 "$1" && link "$host_b" 10.77.0.2 "$1"
    } 2>/dev/null || { end_hosts; return 1; }
    printf '%s slots=1\n' "$host_a" "$host_b" >"$2/machines"
    cat >"$2/agent" <<'END'
#!/bin/bash
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c "hostname $host; $*"
END
    chmod +x "$2/agent"
    hosts_in=$2
}

on_hosts() {
    OMPI_MCA_orte_default_hostfile=$hosts_in/machines \
        OMPI_MCA_plm_rsh_agent=$hosts_in/agent \
        OMPI_MCA_rmaps_base_mapping_policy=node \
        OMPI_MCA_hwloc_base_binding_policy=none \
        OMPI_MCA_btl_tcp_if_include=10.77.0.0/24 \
        OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 \
        ip netns exec "$host_a" unshare --uts bash -c \
        'hostname "$1"; shift; exec "$@"' bash "$host_a" "$@"
}
