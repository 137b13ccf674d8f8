// SwitchV2P in one switch: virtual-to-physical addresses, cached where packets pass.
//
//   parse    outer IPv4, UDP 6081, Geneve, the protocol's option, the tenant's addresses
//   ingress  1. from a host's port: throw out tags that it had no business to set; tag misdeliveries
//            2. with a misdelivery tag: throw out the stale mapping, use a better one, and blame the
//               switch that was wrong
//            3. else learn: one insertion, which depends on the role; and, if the packet is
//               unresolved, look up, rewrite the destination, name this switch in the hit tag
//            4. route by the outer destination, which may be another one now
//   egress   a copy of the packet becomes the learning or invalidation packet; the option is closed
//
// It is the paper's protocol as `crates/v2p` has it in the profile `paper`, step by step, and what
// crosses the wire is what docs/v2p-wire-format.md says. A cache line is spread over registers: key,
// place, version, state (in use, access bit). A register more holds, for each switch, when it may be
// sent the next invalidation packet.
//
// What a control plane writes: who the switch is (`self`), what is at its ports (`port`), which
// addresses are gateways (`gateway`), where hosts are attached (`pod_of`, `tor_of_destination`,
// `tor_of_sender`), where switches are (`switch_address`, `control_route`), and routes (`route`).
// Mirror session n leads to port n.
//
// Less than the crate has: IPv4 only, outside and inside; one way to a line; no option of others
// beside ours. A packet that it does not understand so is routed by its outer destination, which
// is right, if slower: the gateway knows all. A UDP checksum is not verified, and left out of what
// is sent, where it may be missing (RFC 8926, section 3.3).
//
// On v1model a packet may touch a register as often as it wants; here it is a line or two, each
// read, then written. Hardware allows one access to a register for each packet.
//
// References: Zeno, Chen, Silberstein, "In-Network Address Caching for Virtual Networks", SIGCOMM
// 2024, sections 3.1 to 3.4; RFC 8926 (Geneve).

#include <core.p4>
#include <v1model.p4>

#ifndef CACHE_LINES
#define CACHE_LINES 64
#endif
#ifndef SWITCHES
#define SWITCHES 256
#endif

typedef bit<48> mac_t;
typedef bit<32> address_t;
typedef bit<64> version_t;
typedef bit<24> vni_t;

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_FRAME = 0x6558;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_SERVICE_VLAN = 0x88a8;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> GENEVE_PORT = 6081;
const bit<16> OPTION_CLASS = 0xff56;
const bit<8>  OPTION_TYPE = 1;
const bit<8>  OPTION_FORMAT = 1;
const bit<8>  INITIAL_TTL = 64;

// Kinds of messages.
const bit<8> KIND_TAGS = 0;
const bit<8> KIND_LEARNING = 1;
const bit<8> KIND_INVALIDATION = 2;

// Where a switch is in the fabric.
const bit<3> ROLE_GATEWAY_TOR = 0;
const bit<3> ROLE_TOR = 1;
const bit<3> ROLE_GATEWAY_SPINE = 2;
const bit<3> ROLE_SPINE = 3;
const bit<3> ROLE_CORE = 4;

// What is at a port.
const bit<2> FROM_FABRIC = 0;
const bit<2> FROM_HOST = 1;
const bit<2> FROM_GATEWAY = 2;

// A line: in use, and its access bit.
const bit<2> FREE = 0;
const bit<2> USED = 1;
const bit<2> ACTIVE = 3;

// What is counted, by index.
const bit<32> COUNT_HIT = 0;
const bit<32> COUNT_MISS = 1;
const bit<32> COUNT_SPILLED = 2;
const bit<32> COUNT_PROMOTED = 3;
const bit<32> COUNT_LEARNING_PACKET = 4;
const bit<32> COUNT_LEARNED = 5;
const bit<32> COUNT_MISDELIVERED = 6;
const bit<32> COUNT_TAGGED = 7;
const bit<32> COUNT_TAGGED_RESOLVED = 8;
const bit<32> COUNT_INVALIDATED_BY_TAG = 9;
const bit<32> COUNT_INVALIDATED_BY_PACKET = 10;
const bit<32> COUNT_INVALIDATION_PACKET = 11;
const bit<32> COUNT_SUPPRESSED = 12;
const bit<32> COUNT_FORGED_CONTROL = 13;
const bit<32> COUNT_SPOOFED_SOURCE = 14;
const bit<32> COUNT_MALFORMED = 15;

error {
    MalformedOption
}

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header vlan_t {
    bit<16> tag;
    bit<16> type;
}

header ipv4_t {
    bit<4>    version;
    bit<4>    ihl;
    bit<8>    traffic_class;
    bit<16>   length;
    bit<16>   identification;
    bit<1>    reserved;
    bit<1>    dont_fragment;
    bit<1>    more_fragments;
    bit<13>   fragment_offset;
    bit<8>    ttl;
    bit<8>    protocol;
    bit<16>   checksum;
    address_t src;
    address_t dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

header geneve_t {
    bit<2>  version;
    bit<6>  option_words;
    bit<1>  is_control;
    bit<1>  is_critical;
    bit<6>  reserved;
    bit<16> protocol;
    vni_t   vni;
    bit<8>  reserved2;
}

// Geneve's four bytes of an option, then the value's fixed four.
header option_t {
    bit<16> class;
    bit<8>  type;
    bit<3>  reserved;
    bit<5>  words;
    bit<8>  format;
    bit<8>  kind;
    bit<4>  unknown;
    bit<1>  physical_v6;
    bit<1>  virtual_v6;
    bit<1>  misdelivery_v6;
    bit<1>  origin_v6;
    bit<1>  unknown2;
    bit<1>  is_promoted;
    bit<1>  has_mapping;
    bit<1>  has_misdelivery;
    bit<1>  has_origin;
    bit<1>  has_resolved_version;
    bit<1>  has_source_version;
    bit<1>  has_hit;
}

// The records, in the order of their flags.
header hit_t {
    bit<32> switch_id;
}

header version_record_t {
    version_t version;
}

header origin_t {
    address_t host;
}

header misdelivery_t {
    address_t place;
    version_t version;
}

header mapping_t {
    vni_t     vni;
    bit<8>    reserved;
    version_t version;
    address_t address;
    address_t place;
}

struct headers_t {
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    udp_t            udp;
    geneve_t         geneve;
    option_t         option;
    hit_t            hit;
    version_record_t source_version;
    version_record_t resolved_version;
    origin_t         origin;
    misdelivery_t    misdelivery;
    mapping_t        mapping;
    ethernet_t       inner_ethernet;
    vlan_t           inner_vlan;
    vlan_t           inner_vlan2;
    ipv4_t           inner_ipv4;
}

struct metadata_t {
    // 1 for a packet that the protocol handles.
    bit<1>    is_handled;

    // Of the switch.
    bit<32>   id;
    bit<3>    role;
    bit<32>   pod;
    bit<33>   learning_threshold;
    bit<48>   base_rtt_us;
    @field_list(1)
    address_t own_address;

    // Of the packet.
    bit<2>    from;
    address_t host;
    bit<6>    words_behind;
    bit<1>    is_unresolved;
    bit<1>    is_returned;
    // Why the packet carries a mapping, if it does: promoted, or else spilled.
    bit<1>    is_promoted;

    // What is looked up or put in, and the line where it would be.
    vni_t     vni;
    address_t address;
    address_t place;
    version_t version;
    bit<32>   line;
    bit<1>    is_same_key;
    vni_t     line_vni;
    address_t line_address;
    address_t line_place;
    version_t line_version;
    bit<2>    line_state;
    bit<1>    is_inserting;
    bit<1>    keeps_active;
    bit<1>    is_spilling;
    bit<1>    had_carried;

    // The learning or invalidation packet to send, if its kind is not 0.
    @field_list(1)
    bit<8>    control_kind;
    @field_list(1)
    vni_t     control_vni;
    @field_list(1)
    address_t control_address;
    @field_list(1)
    address_t control_place;
    @field_list(1)
    version_t control_version;
    @field_list(1)
    address_t control_destination;
    bit<32>   control_switch;
    bit<32>   random;
    bit<48>   next_turn;
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
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset,
                          hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_UDP): udp;
            default:                 accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dport) {
            GENEVE_PORT: geneve;
            default:     accept;
        }
    }
    state geneve {
        packet.extract(hdr.geneve);
        transition select(hdr.geneve.version, hdr.geneve.option_words) {
            (0, 0):  inner;
            (0, _):  option;
            default: accept;
        }
    }
    // Ours, and no other behind it.
    state option {
        packet.extract(hdr.option);
        meta.words_behind = hdr.geneve.option_words - (bit<6>)hdr.option.words - 1;
        transition select(hdr.option.class, hdr.option.type, meta.words_behind,
                          hdr.option.physical_v6, hdr.option.virtual_v6,
                          hdr.option.misdelivery_v6, hdr.option.origin_v6) {
            (OPTION_CLASS, OPTION_TYPE, 0, 0, 0, 0, 0): check;
            default:                                    accept;
        }
    }
    state check {
        verify(hdr.option.format == OPTION_FORMAT && hdr.option.unknown == 0
               && hdr.option.unknown2 == 0, error.MalformedOption);
        verify(hdr.option.is_promoted <= hdr.option.has_mapping, error.MalformedOption);
        meta.is_promoted = hdr.option.is_promoted;
        verify(hdr.option.words == 1 + (bit<5>)hdr.option.has_hit
               + 2 * (bit<5>)hdr.option.has_source_version
               + 2 * (bit<5>)hdr.option.has_resolved_version
               + (bit<5>)hdr.option.has_origin + 3 * (bit<5>)hdr.option.has_misdelivery
               + 5 * (bit<5>)hdr.option.has_mapping, error.MalformedOption);
        transition select(hdr.option.kind) {
            KIND_TAGS:         hit_or_not;
            KIND_LEARNING:     of_switches;
            KIND_INVALIDATION: of_switches;
            default:           malformed;
        }
    }
    state malformed {
        verify(false, error.MalformedOption);
        transition accept;
    }
    // A learning or invalidation packet has its mapping, and nothing else.
    state of_switches {
        verify(hdr.geneve.is_control == 1 && hdr.option.words == 6
               && hdr.option.has_mapping == 1 && hdr.option.is_promoted == 0,
               error.MalformedOption);
        packet.extract(hdr.mapping);
        verify(hdr.mapping.reserved == 0 && hdr.mapping.vni == hdr.geneve.vni,
               error.MalformedOption);
        meta.is_handled = 1;
        transition accept;
    }
    state hit_or_not {
        verify(hdr.geneve.is_control == 0, error.MalformedOption);
        transition select(hdr.option.has_hit) {
            1:       hit;
            default: source_version_or_not;
        }
    }
    state hit {
        packet.extract(hdr.hit);
        transition source_version_or_not;
    }
    state source_version_or_not {
        transition select(hdr.option.has_source_version) {
            1:       source_version;
            default: resolved_version_or_not;
        }
    }
    state source_version {
        packet.extract(hdr.source_version);
        verify(hdr.source_version.version != 0, error.MalformedOption);
        transition resolved_version_or_not;
    }
    state resolved_version_or_not {
        transition select(hdr.option.has_resolved_version) {
            1:       resolved_version;
            default: origin_or_not;
        }
    }
    state resolved_version {
        packet.extract(hdr.resolved_version);
        verify(hdr.resolved_version.version != 0, error.MalformedOption);
        transition origin_or_not;
    }
    state origin_or_not {
        transition select(hdr.option.has_origin) {
            1:       origin;
            default: misdelivery_or_not;
        }
    }
    state origin {
        packet.extract(hdr.origin);
        transition misdelivery_or_not;
    }
    state misdelivery_or_not {
        transition select(hdr.option.has_misdelivery) {
            1:       misdelivery;
            default: mapping_or_not;
        }
    }
    state misdelivery {
        packet.extract(hdr.misdelivery);
        transition mapping_or_not;
    }
    state mapping_or_not {
        transition select(hdr.option.has_mapping) {
            1:       mapping;
            default: inner;
        }
    }
    state mapping {
        packet.extract(hdr.mapping);
        verify(hdr.mapping.reserved == 0, error.MalformedOption);
        transition inner;
    }
    state inner {
        verify(hdr.geneve.is_control == 0, error.MalformedOption);
        transition select(hdr.geneve.protocol) {
            TYPE_FRAME: frame;
            TYPE_IPV4:  inner_ipv4;
            default:    accept;
        }
    }
    state frame {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.type) {
            TYPE_IPV4:         inner_ipv4;
            TYPE_VLAN:         inner_vlan;
            TYPE_SERVICE_VLAN: inner_vlan;
            default:           accept;
        }
    }
    state inner_vlan {
        packet.extract(hdr.inner_vlan);
        transition select(hdr.inner_vlan.type) {
            TYPE_IPV4:         inner_ipv4;
            TYPE_VLAN:         inner_vlan2;
            TYPE_SERVICE_VLAN: inner_vlan2;
            default:           accept;
        }
    }
    state inner_vlan2 {
        packet.extract(hdr.inner_vlan2);
        transition select(hdr.inner_vlan2.type) {
            TYPE_IPV4: inner_ipv4;
            default:   accept;
        }
    }
    state inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        meta.is_handled = 1;
        transition accept;
    }
}

#define OUTER_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.traffic_class, hdr.ipv4.length, \
    hdr.ipv4.identification, hdr.ipv4.reserved, hdr.ipv4.dont_fragment, \
    hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, \
    hdr.ipv4.src, hdr.ipv4.dst }

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, OUTER_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    register<bit<24>>(CACHE_LINES) line_vnis;
    register<bit<32>>(CACHE_LINES) line_addresses;
    register<bit<32>>(CACHE_LINES) line_places;
    register<bit<64>>(CACHE_LINES) line_versions;
    register<bit<2>>(CACHE_LINES)  line_states;
    register<bit<48>>(SWITCHES)    next_turns;
    counter(16, CounterType.packets) decisions;

    action drop() {
        mark_to_drop(standard);
        exit;
    }

    // Who the switch is. The threshold is the probability of a learning packet, times 2^32.
    action set_self(bit<32> id, address_t address, bit<3> role, bit<32> pod,
                    bit<33> learning_threshold, bit<48> base_rtt_us) {
        meta.id = id;
        meta.own_address = address;
        meta.role = role;
        meta.pod = pod;
        meta.learning_threshold = learning_threshold;
        meta.base_rtt_us = base_rtt_us;
    }
    table self {
        actions = { set_self; drop; }
        default_action = drop();
    }

    // What is at a port; another switch, if nothing is said.
    action set_host(address_t address) {
        meta.from = FROM_HOST;
        meta.host = address;
    }
    action set_gateway() {
        meta.from = FROM_GATEWAY;
    }
    table port {
        key = { standard.ingress_port: exact; }
        actions = { set_host; set_gateway; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // A packet for a gateway is unresolved.
    action set_unresolved() {
        meta.is_unresolved = 1;
    }
    table gateway {
        key = { hdr.ipv4.dst: exact; }
        actions = { set_unresolved; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    // A resolved destination elsewhere is worth a place in a core.
    action promote() {
        decisions.count(COUNT_PROMOTED);
        hdr.mapping.setValid();
        hdr.mapping.vni = meta.vni;
        hdr.mapping.reserved = 0;
        hdr.mapping.version = meta.line_version;
        hdr.mapping.address = meta.address;
        hdr.mapping.place = meta.line_place;
        meta.is_promoted = 1;
    }
    action set_pod(bit<32> pod) {
        if (pod != meta.pod) { promote(); }
    }
    table pod_of {
        key = { meta.line_place: exact; }
        actions = { set_pod; promote; }
        default_action = promote();
        size = 4096;
    }

    // What is carried is nothing for a host of this switch.
    action set_tor_of_destination(bit<32> switch_id) {
        if (switch_id == meta.id) { hdr.mapping.setInvalid(); }
    }
    table tor_of_destination {
        key = { hdr.ipv4.dst: exact; }
        actions = { set_tor_of_destination; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // Where a learning packet goes: the ToR of the sender.
    action set_learner(bit<32> switch_id) {
        meta.control_switch = switch_id;
        meta.control_kind = KIND_LEARNING;
    }
    table tor_of_sender {
        key = { meta.host: exact; }
        actions = { set_learner; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // The address of a switch.
    action set_switch_address(address_t address) {
        meta.control_destination = address;
    }
    table switch_address {
        key = { meta.control_switch: exact; }
        actions = { set_switch_address; NoAction; }
        default_action = NoAction();
        size = SWITCHES;
    }

    // A copy of the packet, for egress to make the message of.
    action send_control(bit<32> session) {
        clone_preserving_field_list(CloneType.I2E, session, 1);
    }
    table control_route {
        key = { meta.control_destination: lpm; }
        actions = { send_control; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action forward(bit<9> port) {
        standard.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4096;
    }

    // Reads the line of a key. The index is the CRC-32 of address and tenant, each with its least
    // significant byte first.
    action find() {
        bit<32> tenant = (bit<32>)meta.vni;
        hash(meta.line, HashAlgorithm.crc32, 32w0,
             { meta.address[7:0], meta.address[15:8], meta.address[23:16], meta.address[31:24],
               tenant[7:0], tenant[15:8], tenant[23:16], tenant[31:24] },
             (bit<32>)CACHE_LINES);
        line_vnis.read(meta.line_vni, meta.line);
        line_addresses.read(meta.line_address, meta.line);
        line_places.read(meta.line_place, meta.line);
        line_versions.read(meta.line_version, meta.line);
        line_states.read(meta.line_state, meta.line);
        meta.is_same_key = 0;
        if (meta.line_state != FREE && meta.line_vni == meta.vni
            && meta.line_address == meta.address) {
            meta.is_same_key = 1;
        }
    }

    // The access bit: set by a hit, cleared by a miss.
    action touch() {
        if (meta.is_same_key == 1) {
            line_states.write(meta.line, ACTIVE);
        } else {
            line_states.write(meta.line, meta.line_state & USED);
        }
    }

    action write_line() {
        line_vnis.write(meta.line, meta.vni);
        line_addresses.write(meta.line, meta.address);
        line_places.write(meta.line, meta.place);
        line_versions.write(meta.line, meta.version);
        line_states.write(meta.line, meta.line_state);
    }

    action clear_line() {
        line_vnis.write(meta.line, 0);
        line_addresses.write(meta.line, 0);
        line_places.write(meta.line, 0);
        line_versions.write(meta.line, 0);
        line_states.write(meta.line, FREE);
    }

    // What was displaced goes along with the packet.
    action spill() {
        decisions.count(COUNT_SPILLED);
        hdr.mapping.setValid();
        hdr.mapping.vni = meta.line_vni;
        hdr.mapping.reserved = 0;
        hdr.mapping.version = meta.line_version;
        hdr.mapping.address = meta.line_address;
        hdr.mapping.place = meta.line_place;
        meta.is_promoted = 0;
    }

    // What the packet carries is to be inserted.
    action take_carried() {
        meta.vni = hdr.mapping.vni;
        meta.address = hdr.mapping.address;
        meta.place = hdr.mapping.place;
        meta.version = hdr.mapping.version;
        meta.is_inserting = 1;
        meta.had_carried = 1;
    }

    // Where the packet goes is to be inserted.
    action take_destination() {
        meta.vni = hdr.geneve.vni;
        meta.address = hdr.inner_ipv4.dst;
        meta.place = hdr.ipv4.dst;
        meta.version = 0;
        if (hdr.resolved_version.isValid()) { meta.version = hdr.resolved_version.version; }
        meta.is_inserting = 1;
    }

    // Where the packet comes from is to be inserted.
    action take_source() {
        meta.vni = hdr.geneve.vni;
        meta.address = hdr.inner_ipv4.src;
        meta.place = hdr.ipv4.src;
        meta.version = 0;
        if (hdr.source_version.isValid()) { meta.version = hdr.source_version.version; }
        meta.is_inserting = 1;
    }

    // The packet has this switch's word for its destination.
    action resolve() {
        hdr.ipv4.dst = meta.line_place;
        hdr.hit.setValid();
        hdr.hit.switch_id = meta.id;
        hdr.resolved_version.setInvalid();
        if (meta.line_version != 0) {
            hdr.resolved_version.setValid();
            hdr.resolved_version.version = meta.line_version;
        }
    }

    apply {
        self.apply();
        port.apply();
        if (standard.checksum_error == 1 || standard.parser_error != error.NoError) {
            decisions.count(COUNT_MALFORMED);
            drop();
        }
        if (!hdr.ipv4.isValid()) {
            drop();
        }

        if (meta.is_handled == 1 && hdr.geneve.is_control == 1) {
            if (meta.from == FROM_HOST) {
                decisions.count(COUNT_FORGED_CONTROL);
                drop();
            }
            meta.vni = hdr.mapping.vni;
            meta.address = hdr.mapping.address;
            meta.place = hdr.mapping.place;
            meta.version = hdr.mapping.version;
            if (hdr.option.kind == KIND_INVALIDATION) {
                find();
                if (meta.is_same_key == 1 && meta.line_place == meta.place) {
                    decisions.count(COUNT_INVALIDATED_BY_PACKET);
                    clear_line();
                } else {
                    touch();
                }
            } else if (hdr.ipv4.dst == meta.own_address) {
                decisions.count(COUNT_LEARNED);
                meta.is_inserting = 1;
            }
        } else if (meta.is_handled == 1) {
            gateway.apply();
            if (meta.from == FROM_HOST) {
                if (hdr.ipv4.src != meta.host && meta.is_unresolved == 0) {
                    decisions.count(COUNT_SPOOFED_SOURCE);
                    drop();
                }
                // A host that returns a packet of its own has only the marks of the way to show.
                if (hdr.ipv4.src != meta.host || meta.is_unresolved == 1
                    && (hdr.hit.isValid() || hdr.resolved_version.isValid())) {
                    meta.is_returned = 1;
                }
                hdr.mapping.setInvalid();
                hdr.origin.setInvalid();
                if (meta.is_returned == 1) {
                    decisions.count(COUNT_MISDELIVERED);
                    hdr.misdelivery.setValid();
                    hdr.misdelivery.place = meta.host;
                    hdr.misdelivery.version = 0;
                    if (hdr.resolved_version.isValid()) {
                        hdr.misdelivery.version = hdr.resolved_version.version;
                    }
                    if (hdr.ipv4.src != meta.host) {
                        hdr.source_version.setInvalid();
                    }
                } else {
                    hdr.misdelivery.setInvalid();
                    hdr.hit.setInvalid();
                    hdr.resolved_version.setInvalid();
                }
            }

            if (hdr.misdelivery.isValid()) {
                decisions.count(COUNT_TAGGED);
                if (meta.is_returned == 1 && hdr.hit.isValid()) {
                    meta.control_switch = hdr.hit.switch_id;
                    meta.control_kind = KIND_INVALIDATION;
                    hdr.hit.setInvalid();
                }
                meta.vni = hdr.geneve.vni;
                meta.address = hdr.inner_ipv4.dst;
                find();
                if (meta.is_same_key == 1 && meta.line_place == hdr.misdelivery.place) {
                    decisions.count(COUNT_INVALIDATED_BY_TAG);
                    clear_line();
                } else {
                    touch();
                    if (meta.is_same_key == 1 && meta.is_unresolved == 1) {
                        decisions.count(COUNT_TAGGED_RESOLVED);
                        resolve();
                    }
                }
            } else if (meta.role == ROLE_TOR) {
                take_source();
                if (meta.from != FROM_FABRIC) { meta.is_spilling = 1; }
            } else if (meta.role == ROLE_CORE) {
                if (hdr.mapping.isValid() && meta.is_promoted == 1) {
                    take_carried();
                    meta.is_spilling = 1;
                    meta.keeps_active = 1;
                }
            } else {
                if (hdr.mapping.isValid()) {
                    take_carried();
                } else if (meta.is_unresolved == 0) {
                    take_destination();
                }
                meta.is_spilling = 1;
                if (meta.role != ROLE_GATEWAY_TOR) { meta.keeps_active = 1; }
            }
        }

        // The insertion, and what it displaces.
        if (meta.is_inserting == 1) {
            find();
            if (meta.is_same_key == 1) {
                if (meta.line_place == meta.place) {
                    if (meta.line_version > meta.version) { meta.version = meta.line_version; }
                }
                write_line();
                if (meta.had_carried == 1) { hdr.mapping.setInvalid(); }
            } else if (meta.line_state != ACTIVE || meta.keeps_active == 0) {
                if (meta.had_carried == 1) { hdr.mapping.setInvalid(); }
                if (meta.line_state != FREE && meta.is_spilling == 1) { spill(); }
                meta.line_state = USED;
                write_line();
            }
        }

        // The lookup.
        if (meta.is_handled == 1 && hdr.geneve.is_control == 0
            && meta.is_unresolved == 1 && !hdr.misdelivery.isValid()) {
            meta.vni = hdr.geneve.vni;
            meta.address = hdr.inner_ipv4.dst;
            find();
            touch();
            if (meta.is_same_key == 1) {
                decisions.count(COUNT_HIT);
                resolve();
                if (meta.role == ROLE_SPINE && meta.line_state == ACTIVE) { pod_of.apply(); }
            } else {
                decisions.count(COUNT_MISS);
            }
        }

        // Now and then a gateway's ToR tells the sender's ToR where a resolved packet goes.
        if (meta.role == ROLE_GATEWAY_TOR && meta.is_handled == 1 && hdr.geneve.is_control == 0
            && !hdr.misdelivery.isValid()
            && (meta.is_unresolved == 0 || meta.is_same_key == 1)) {
            random(meta.random, 32w0, 32w0xffffffff);
            if ((bit<33>)meta.random < meta.learning_threshold) {
                decisions.count(COUNT_LEARNING_PACKET);
                meta.host = hdr.ipv4.src;
                if (hdr.origin.isValid()) { meta.host = hdr.origin.host; }
                meta.control_vni = hdr.geneve.vni;
                meta.control_address = hdr.inner_ipv4.dst;
                meta.control_place = hdr.ipv4.dst;
                meta.control_version = 0;
                if (hdr.resolved_version.isValid()) {
                    meta.control_version = hdr.resolved_version.version;
                }
                tor_of_sender.apply();
            }
        }

        if (hdr.mapping.isValid() && hdr.geneve.is_control == 0 && meta.is_handled == 1
            && (meta.role == ROLE_TOR || meta.role == ROLE_GATEWAY_TOR)) {
            tor_of_destination.apply();
        }

        // The message, unless it would be to ourselves, or the switch had one a moment ago.
        if (meta.control_kind != 0) {
            if (switch_address.apply().hit) {
                if (meta.control_kind == KIND_INVALIDATION) {
                    meta.control_vni = hdr.geneve.vni;
                    meta.control_address = hdr.inner_ipv4.dst;
                    meta.control_place = hdr.misdelivery.place;
                    meta.control_version = hdr.misdelivery.version;
                    next_turns.read(meta.next_turn, meta.control_switch);
                    if (meta.next_turn <= standard.ingress_global_timestamp) {
                        decisions.count(COUNT_INVALIDATION_PACKET);
                        meta.next_turn = standard.ingress_global_timestamp + meta.base_rtt_us;
                        next_turns.write(meta.control_switch, meta.next_turn);
                    } else {
                        decisions.count(COUNT_SUPPRESSED);
                        meta.control_switch = meta.id;
                    }
                }
                if (meta.control_switch != meta.id) { control_route.apply(); }
            }
        }

        if (meta.is_handled == 1 && hdr.geneve.is_control == 1
            && hdr.ipv4.dst == meta.own_address) {
            drop();
        }
        if (hdr.ipv4.ttl <= 1) {
            drop();
        }
        route.apply();
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard) {
    // A copy becomes the message: its own headers, and nothing behind them.
    action make_control() {
        hdr.ethernet.dst = 16w0x0200 ++ meta.control_destination;
        hdr.ethernet.src = 16w0x0200 ++ meta.own_address;
        hdr.ipv4.traffic_class = 0;
        hdr.ipv4.length = 64;
        hdr.ipv4.identification = 0;
        hdr.ipv4.reserved = 0;
        hdr.ipv4.dont_fragment = 1;
        hdr.ipv4.ttl = INITIAL_TTL;
        hdr.ipv4.src = meta.own_address;
        hdr.ipv4.dst = meta.control_destination;
        hdr.udp.sport = 0;
        hdr.udp.length = 44;
        hdr.udp.checksum = 0;
        hdr.geneve.option_words = 7;
        hdr.geneve.is_control = 1;
        hdr.geneve.is_critical = 0;
        hdr.geneve.reserved = 0;
        hdr.geneve.protocol = TYPE_FRAME;
        hdr.geneve.vni = meta.control_vni;
        hdr.geneve.reserved2 = 0;
        hdr.option.setValid();
        hdr.option = { OPTION_CLASS, OPTION_TYPE, 0, 6, OPTION_FORMAT, meta.control_kind,
                       0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0 };
        hdr.hit.setInvalid();
        hdr.source_version.setInvalid();
        hdr.resolved_version.setInvalid();
        hdr.origin.setInvalid();
        hdr.misdelivery.setInvalid();
        hdr.mapping.setValid();
        hdr.mapping = { meta.control_vni, 0, meta.control_version, meta.control_address,
                        meta.control_place };
        hdr.inner_ethernet.setInvalid();
        hdr.inner_vlan.setInvalid();
        hdr.inner_vlan2.setInvalid();
        hdr.inner_ipv4.setInvalid();
        truncate(78);
    }

    // Writes the flags and lengths that the records ask for.
    action close_option() {
        bit<6> words = 2;
        hdr.option.class = OPTION_CLASS;
        hdr.option.type = OPTION_TYPE;
        hdr.option.reserved = 0;
        hdr.option.format = OPTION_FORMAT;
        hdr.option.kind = KIND_TAGS;
        hdr.option.unknown = 0;
        hdr.option.physical_v6 = 0;
        hdr.option.virtual_v6 = 0;
        hdr.option.misdelivery_v6 = 0;
        hdr.option.origin_v6 = 0;
        hdr.option.unknown2 = 0;
        hdr.option.is_promoted = 0;
        hdr.option.has_mapping = 0;
        hdr.option.has_misdelivery = 0;
        hdr.option.has_origin = 0;
        hdr.option.has_resolved_version = 0;
        hdr.option.has_source_version = 0;
        hdr.option.has_hit = 0;
        if (hdr.hit.isValid()) {
            hdr.option.has_hit = 1;
            words = words + 1;
        }
        if (hdr.source_version.isValid()) {
            hdr.option.has_source_version = 1;
            words = words + 2;
        }
        if (hdr.resolved_version.isValid()) {
            hdr.option.has_resolved_version = 1;
            words = words + 2;
        }
        if (hdr.origin.isValid()) {
            hdr.option.has_origin = 1;
            words = words + 1;
        }
        if (hdr.misdelivery.isValid()) {
            hdr.option.has_misdelivery = 1;
            words = words + 3;
        }
        if (hdr.mapping.isValid()) {
            hdr.option.has_mapping = 1;
            hdr.option.is_promoted = meta.is_promoted;
            words = words + 5;
        }
        hdr.option.words = (bit<5>)(words - 1);
        if (words == 2) {
            words = 0;
            hdr.option.setInvalid();
        }
        hdr.ipv4.length = hdr.ipv4.length
            + 4 * ((bit<16>)words - (bit<16>)hdr.geneve.option_words);
        hdr.udp.length = hdr.udp.length
            + 4 * ((bit<16>)words - (bit<16>)hdr.geneve.option_words);
        hdr.udp.checksum = 0;
        hdr.geneve.option_words = words;
    }

    apply {
        if (standard.instance_type == 1) {
            make_control();
        } else if (meta.is_handled == 1 && hdr.geneve.is_control == 0) {
            hdr.option.setValid();
            close_option();
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, OUTER_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Update(), Deparse()) main;
