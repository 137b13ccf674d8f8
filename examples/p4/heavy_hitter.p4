// A switch that finds heavy flows by itself, and marks what they send: behaviour that state changes.
//
// Two rows of counters are a count-min sketch. A flow (source, destination, protocol) has a counter
// in each, by two hashes; when both have come to HEAVY, the flow is heavy. Counters stop there: so
// what a heavy flow's packets come to is the same for all of them, and they are what a cache of
// behaviours gains by.
//
// Reference: Zhang et al., "B-Cache: A Behavior-Level Caching Framework for the Programmable Data
// Plane", sections I and II.B.

#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> HEAVY = 100;

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

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<16> place_0;
    bit<16> place_1;
    bit<16> count_0;
    bit<16> count_1;
    bit<1>  is_heavy;
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
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

#define FLOW { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol }

control Heavy(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<16>>(65536) row_0;
    register<bit<16>>(65536) row_1;

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

    action mark(bit<8> tos) {
        hdr.ipv4.tos = tos;
    }
    table heavy {
        key = { meta.is_heavy: exact; }
        actions = { mark; drop; NoAction; }
        default_action = NoAction();
        size = 2;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            hash(meta.place_0, HashAlgorithm.crc16, 16w0, FLOW, 32w65536);
            hash(meta.place_1, HashAlgorithm.crc32, 16w0, FLOW, 32w65536);
            row_0.read(meta.count_0, (bit<32>)meta.place_0);
            row_1.read(meta.count_1, (bit<32>)meta.place_1);
            if (meta.count_0 < HEAVY) {
                meta.count_0 = meta.count_0 + 1;
            }
            if (meta.count_1 < HEAVY) {
                meta.count_1 = meta.count_1 + 1;
            }
            row_0.write((bit<32>)meta.place_0, meta.count_0);
            row_1.write((bit<32>)meta.place_1, meta.count_1);
            if (meta.count_0 == HEAVY && meta.count_1 == HEAVY) {
                meta.is_heavy = 1;
            }
            route.apply();
            heavy.apply();
        } else {
            drop();
        }
    }
}

control Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), Verify(), Heavy(), Egress(), Update(), Deparse()) main;
