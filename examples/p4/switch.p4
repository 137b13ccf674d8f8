// A switch that bridges, routes, filters, translates and guards: the four cases that B-Cache was
// measured on, rebuilt.
//
//   CASE 1   L2L3: bridging with learning, routing
//   CASE 2   and an access list
//   CASE 3   and network address translation
//   CASE 4   and source guard, storm control, virtual routers
//
// Compile it with -DCASE=1 to 4; README.md has the commands, and what is compiled lies beside it.
//
// Of each packet's way, with the case that brings the table:
//
//   parse
//   port_vlan      1   which bridge domain the packet is in
//   smac           1   its source is known there, or the controller is told of it
//   packet_kind    4   one receiver, several, or all
//   storm          4   a meter and a counter for each port and kind
//   storm_action   4   what the meter's color comes to
//   ipsg           4   this machine may use this address at this port
//   ipsg_permit    4     or it is one of the exceptions
//   vrf            4   which virtual router the domain belongs to
//   ipv4_acl       2   permit or deny
//   nat_twice      3   both of its ends are translated
//   nat_dst        3     or its destination alone
//   nat_src        3     or its source alone
//   nat_flow       3     or what it matches with masks
//   nat_rewrite    3   the new addresses and ports
//   rmac           1   for the router
//     fib          1     the longest prefix
//     mcast_route  1     or the group
//     nexthop      1     the next machine, its port and domain
//   dmac           1   or for a machine of the domain
//   send_frame     1   egress: the router's address of the port
//   vlan_xlate     1   egress: the tag that the port and domain want
//
// What holds everywhere: a packet that is dropped goes on to no later table (`exit`); the group of
// copies of a bridge domain has the domain's number, and a copy's `egress_rid` is the domain that it
// leaves in.
//
// Not here: options of IPv4 (what has them is not routed), fragments are not translated, IPv6 and
// other protocols are bridged. A packet whose time to live ends is dropped, and nobody is told.
//
// References: Zhang et al., "B-Cache: A Behavior-Level Caching Framework for the Programmable Data
// Plane", section V; RFC 1812, section 5.2 (checks of a router, time to live); RFC 1624, section 3,
// equation 3 (checksums by differences).

#include <core.p4>
#include <v1model.p4>

#ifndef CASE
#define CASE 4
#endif

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9>  port_t;
typedef bit<12> domain_t;

const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header vlan_t {
    bit<3>   pcp;
    bit<1>   dei;
    domain_t vid;
    bit<16>  type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      tos;
    bit<16>     length;
    bit<16>     id;
    bit<2>      flags;
    bit<1>      more_fragments;
    bit<13>     fragment_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src;
    ipv4_addr_t dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

// What the controller is told of an address that is new.
struct learn_t {
    port_t   port;
    domain_t domain;
    mac_t    mac;
}

struct metadata_t {
    domain_t domain;
    bit<1>   is_routed;
    bit<16>  nexthop;
    // The ports and flags of TCP or UDP; 0 if the packet has neither.
    bit<16>  sport;
    bit<16>  dport;
    bit<8>   tcp_flags;
#if CASE >= 3
    bit<14>  nat_index;
    bit<1>   is_translated;
    // The complements of what a checksum was made of, for RFC 1624.
    bit<16>     not_checksum;
    ipv4_addr_t not_src;
    ipv4_addr_t not_dst;
    bit<16>     not_sport;
    bit<16>     not_dport;
#endif
#if CASE >= 4
    bit<2>   kind;
    bit<2>   color;
    domain_t vrf;
#endif
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_VLAN: vlan;
            TYPE_IPV4: ipv4;
            default:   accept;
        }
    }
    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.type) {
            TYPE_IPV4: ipv4;
            default:   accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
#if CASE >= 3
        meta.not_src = ~hdr.ipv4.src;
        meta.not_dst = ~hdr.ipv4.dst;
#endif
        // Behind options the ports lie elsewhere, and only a first fragment has them.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): tcp;
            (5, 0, PROTOCOL_UDP): udp;
            default:              accept;
        }
    }
    state tcp {
        packet.extract(hdr.tcp);
        meta.sport = hdr.tcp.sport;
        meta.dport = hdr.tcp.dport;
        meta.tcp_flags = hdr.tcp.flags;
#if CASE >= 3
        meta.not_checksum = ~hdr.tcp.checksum;
        meta.not_sport = ~hdr.tcp.sport;
        meta.not_dport = ~hdr.tcp.dport;
#endif
        transition accept;
    }
    state udp {
        packet.extract(hdr.udp);
        meta.sport = hdr.udp.sport;
        meta.dport = hdr.udp.dport;
#if CASE >= 3
        meta.not_checksum = ~hdr.udp.checksum;
        meta.not_sport = ~hdr.udp.sport;
        meta.not_dport = ~hdr.udp.dport;
#endif
        transition accept;
    }
}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, \
    hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, \
    hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
        exit;
    }

#if CASE >= 2
    action permit() { }
#endif

    // 1. Which bridge domain the packet is in.
    action set_domain(domain_t domain) {
        meta.domain = domain;
    }
    table port_vlan {
        key = {
            standard.ingress_port: exact;
            hdr.vlan.isValid():    exact @name("vlan_valid");
            hdr.vlan.vid:          ternary;
        }
        actions = { set_domain; drop; }
        default_action = drop();
        size = 4096;
    }

    // 2. Its source is known there, or the controller is told of it.
    action learn() {
        digest<learn_t>(1, { standard.ingress_port, meta.domain, hdr.ethernet.src });
    }
    table smac {
        key = {
            meta.domain:           exact;
            hdr.ethernet.src:      exact;
            standard.ingress_port: exact;
        }
        actions = { NoAction; learn; }
        default_action = learn();
        size = 16384;
    }

#if CASE >= 4
    // 3. One receiver, several, or all.
    action unicast()   { meta.kind = 1; }
    action multicast() { meta.kind = 2; }
    action broadcast() { meta.kind = 3; }
    table packet_kind {
        key = { hdr.ethernet.dst: ternary; }
        actions = { unicast; multicast; broadcast; }
        default_action = unicast();
        size = 64;
    }

    // 4. A meter and a counter for each port and kind.
    meter(1024, MeterType.bytes) storm_meter;
    counter(1024, CounterType.packets_and_bytes) storm_counter;
    action police(bit<10> index) {
        storm_meter.execute_meter((bit<32>)index, meta.color);
        storm_counter.count((bit<32>)index);
    }
    table storm {
        key = {
            standard.ingress_port: exact;
            meta.kind:             ternary;
        }
        actions = { police; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // 5. What the color comes to, counted.
    direct_counter(CounterType.packets_and_bytes) storm_stats;
    table storm_action {
        key = {
            meta.color:            exact;
            standard.ingress_port: exact;
        }
        actions = { NoAction; drop; }
        default_action = NoAction();
        counters = storm_stats;
        size = 2048;
    }

    // 6. This machine may use this address at this port ...
    table ipsg {
        key = {
            standard.ingress_port: exact;
            meta.domain:           exact;
            hdr.ethernet.src:      exact;
            hdr.ipv4.src:          exact;
        }
        actions = { permit; NoAction; }
        default_action = NoAction();
        size = 16384;
    }

    // 7. ... or the packet is one that a machine without an address may send.
    action guard() {
        drop();
    }
    table ipsg_permit {
        key = {
            hdr.ipv4.protocol: ternary;
            meta.dport:        ternary;
            hdr.ipv4.dst:      ternary;
        }
        actions = { permit; guard; }
        default_action = guard();
        size = 512;
    }

    // 8. Which virtual router the domain belongs to.
    action set_vrf(domain_t vrf) {
        meta.vrf = vrf;
    }
    table vrf {
        key = { meta.domain: exact; }
        actions = { set_vrf; drop; }
        default_action = set_vrf(0);
        size = 4096;
    }
#endif

#if CASE >= 2
    // 9. Permit or deny.
    action deny() {
        drop();
    }
    table ipv4_acl {
        key = {
            standard.ingress_port: ternary;
            hdr.ipv4.src:          ternary;
            hdr.ipv4.dst:          ternary;
            hdr.ipv4.protocol:     ternary;
            meta.sport:            ternary;
            meta.dport:            ternary;
            meta.tcp_flags:        ternary;
        }
        actions = { permit; deny; }
        default_action = permit();
        size = 4096;
    }
#endif

#if CASE >= 3
    // 10 to 13. Which translation: the most exact that there is.
    action nat_idx(bit<14> index) {
        meta.nat_index = index;
    }
    table nat_twice {
        key = {
            hdr.ipv4.src:      exact;
            hdr.ipv4.dst:      exact;
            hdr.ipv4.protocol: exact;
            meta.sport:        exact;
            meta.dport:        exact;
        }
        actions = { nat_idx; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table nat_dst {
        key = {
            hdr.ipv4.dst:      exact;
            hdr.ipv4.protocol: exact;
            meta.dport:        exact;
        }
        actions = { nat_idx; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table nat_src {
        key = {
            hdr.ipv4.src:      exact;
            hdr.ipv4.protocol: exact;
            meta.sport:        exact;
        }
        actions = { nat_idx; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table nat_flow {
        key = {
            hdr.ipv4.src:      ternary;
            hdr.ipv4.dst:      ternary;
            hdr.ipv4.protocol: ternary;
            meta.sport:        ternary;
            meta.dport:        ternary;
        }
        actions = { nat_idx; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // 14. The new addresses and ports; index 0 is none.
    action set_src(ipv4_addr_t address, bit<16> number) {
        hdr.ipv4.src = address;
        meta.sport = number;
        meta.is_translated = 1;
        if (hdr.tcp.isValid()) { hdr.tcp.sport = number; }
        if (hdr.udp.isValid()) { hdr.udp.sport = number; }
    }
    action set_dst(ipv4_addr_t address, bit<16> number) {
        hdr.ipv4.dst = address;
        meta.dport = number;
        meta.is_translated = 1;
        if (hdr.tcp.isValid()) { hdr.tcp.dport = number; }
        if (hdr.udp.isValid()) { hdr.udp.dport = number; }
    }
    action set_both(ipv4_addr_t src, bit<16> sport, ipv4_addr_t dst, bit<16> dport) {
        set_src(src, sport);
        set_dst(dst, dport);
    }
    table nat_rewrite {
        key = { meta.nat_index: exact; }
        actions = { set_src; set_dst; set_both; NoAction; }
        default_action = NoAction();
        size = 16384;
    }
#endif

    // 15. For the router.
    action route() {
        meta.is_routed = 1;
    }
    table rmac {
        key = {
            meta.domain:      exact;
            hdr.ethernet.dst: exact;
        }
        actions = { route; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // 16. The longest prefix.
    action set_nexthop(bit<16> nexthop) {
        meta.nexthop = nexthop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table fib {
        key = {
#if CASE >= 4
            meta.vrf:     exact;
#endif
            hdr.ipv4.dst: lpm;
        }
        actions = { set_nexthop; drop; }
        default_action = drop();
        size = 16384;
    }

    // 17. The group: copies for other domains, each with the domain's number.
    action copy_to(bit<16> group) {
        standard.mcast_grp = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table mcast_route {
        key = {
            meta.domain:  exact;
            hdr.ipv4.dst: exact;
        }
        actions = { copy_to; drop; }
        default_action = drop();
        size = 4096;
    }

    // 18. The next machine, its port and domain.
    action forward_to(mac_t mac, port_t port, domain_t domain) {
        hdr.ethernet.dst = mac;
        standard.egress_spec = port;
        meta.domain = domain;
    }
    table nexthop {
        key = { meta.nexthop: exact; }
        actions = { forward_to; drop; }
        default_action = drop();
        size = 16384;
    }

    // 19. For a machine of the domain; for all of them, if it is not known.
    action forward(port_t port) {
        standard.egress_spec = port;
    }
    action flood() {
        standard.mcast_grp = (bit<16>)meta.domain;
    }
    table dmac {
        key = {
            meta.domain:      exact;
            hdr.ethernet.dst: exact;
        }
        actions = { forward; flood; drop; }
        default_action = flood();
        size = 16384;
    }

    apply {
        port_vlan.apply();
        smac.apply();
#if CASE >= 4
        packet_kind.apply();
        storm.apply();
        storm_action.apply();
        if (hdr.ipv4.isValid()) {
            if (!ipsg.apply().hit) {
                ipsg_permit.apply();
            }
        }
        vrf.apply();
#endif
#if CASE >= 2
        if (hdr.ipv4.isValid()) {
            ipv4_acl.apply();
        }
#endif
#if CASE >= 3
        if (hdr.ipv4.more_fragments == 0 && (hdr.tcp.isValid() || hdr.udp.isValid())) {
            if (!nat_twice.apply().hit) {
                if (!nat_dst.apply().hit) {
                    if (!nat_src.apply().hit) {
                        nat_flow.apply();
                    }
                }
            }
            nat_rewrite.apply();
        }
#endif
        if (hdr.ipv4.isValid()) {
            rmac.apply();
        }
        if (meta.is_routed == 1) {
            // RFC 1812, section 5.2.2: what fails a check is silently discarded.
            if (standard.checksum_error == 1 || hdr.ipv4.ihl != 5 || hdr.ipv4.ttl <= 1) {
                drop();
            }
            if (hdr.ipv4.dst[31:28] == 0xe) {
                mcast_route.apply();
            } else {
                fib.apply();
                nexthop.apply();
            }
        } else {
            dmac.apply();
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
        exit;
    }

    // 20. The router's address of the port.
    action set_smac(mac_t mac) {
        hdr.ethernet.src = mac;
    }
    table send_frame {
        key = { standard.egress_port: exact; }
        actions = { set_smac; drop; }
        default_action = drop();
        size = 512;
    }

    // 21. The tag that the port and domain want.
    action tag(domain_t vid) {
        hdr.vlan.setValid();
        hdr.vlan.pcp = 0;
        hdr.vlan.dei = 0;
        hdr.vlan.vid = vid;
        hdr.vlan.type = hdr.ethernet.type;
        hdr.ethernet.type = TYPE_VLAN;
    }
    action retag(domain_t vid) {
        hdr.vlan.vid = vid;
    }
    action untag() {
        hdr.ethernet.type = hdr.vlan.type;
        hdr.vlan.setInvalid();
    }
    table vlan_xlate {
        key = {
            standard.egress_port: exact;
            meta.domain:          exact;
            hdr.vlan.isValid():   exact @name("vlan_valid");
        }
        actions = { tag; retag; untag; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        // A copy leaves in the domain of its number.
        if (standard.egress_rid != 0) {
            meta.domain = (domain_t)standard.egress_rid;
        }
        if (meta.is_routed == 1) {
            send_frame.apply();
        } else if (standard.egress_port == standard.ingress_port) {
            // What is bridged does not go back where it came from.
            drop();
        }
        vlan_xlate.apply();
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
#if CASE >= 3
        // By differences, so that a packet that was damaged before stays so: the new checksum is
        // ~(~old checksum + ~old words + new words).
        update_checksum(meta.is_translated == 1 && hdr.tcp.isValid(),
            { meta.not_checksum, meta.not_src, meta.not_dst, meta.not_sport, meta.not_dport,
              hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.sport, hdr.tcp.dport },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        // UDP may have none (0), and says 0xffff where the sum is 0 (RFC 768).
        update_checksum(meta.is_translated == 1 && hdr.udp.isValid() && hdr.udp.checksum != 0,
            { meta.not_checksum, meta.not_src, meta.not_dst, meta.not_sport, meta.not_dport,
              hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.sport, hdr.udp.dport },
            hdr.udp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.is_translated == 1 && hdr.udp.isValid() && hdr.udp.checksum == 0
                        && meta.not_checksum != 0xffff,
            { 16w0 }, hdr.udp.checksum, HashAlgorithm.csum16);
#endif
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Update(), Deparse()) main;
