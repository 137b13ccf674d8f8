// A door that opens to who knocks at the right ports in the right order: a finite-state machine for
// each source, its state in a register.
//
// The table `knock` has the transitions: from a state, by the port that is knocked at, to the next.
// What it does not have leads back to the beginning. In state OPEN packets are sent on, else they
// are dropped.
//
// References: Zhang et al., "B-Cache: A Behavior-Level Caching Framework for the Programmable Data
// Plane", section II.B; Bianchi et al., "OpenState: Programming Platform-independent Stateful
// OpenFlow Applications Inside the Switch", CCR 2014, section 2.

#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_TCP = 6;
const bit<2>  OPEN = 3;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
}

struct metadata_t {
    bit<2> state;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            default:   accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): tcp;
            default:              accept;
        }
    }
    state tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Door(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<2>>(65536) states;

    action go(bit<2> next) {
        meta.state = next;
    }
    table knock {
        key = {
            meta.state:    exact;
            hdr.tcp.dport: ternary;
        }
        actions = { go; }
        default_action = go(0);
        size = 64;
    }

    action drop() {
        mark_to_drop(standard);
    }
    action send(port_t port) {
        standard.egress_spec = port;
    }
    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { send; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (hdr.tcp.isValid()) {
            states.read(meta.state, (bit<32>)hdr.ipv4.src[15:0]);
            knock.apply();
            states.write((bit<32>)hdr.ipv4.src[15:0], meta.state);
            if (meta.state == OPEN) {
                route.apply();
            } else {
                drop();
            }
        } else {
            drop();
        }
    }
}

control Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
    }
}

V1Switch(Parse(), Verify(), Door(), Egress(), Update(), Deparse()) main;
