/* Measures Open vSwitch's userspace tracker (lib/conntrack.c) as `thalweg bench conntrack` measures
 * ours: the same frames, 32 at a time, in processor time of the thread.
 *
 *     ovs_conntrack PROTOCOL CONNECTIONS TRACKING PACKETS SAMPLES
 *     ovs_conntrack memory CONNECTIONS
 *
 * PROTOCOL is udp or tcp, TRACKING is ct or nat. Prints a number for each sample. Compiled and
 * called by ovs_conntrack.py. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conntrack.h"
#include "csum.h"
#include "dp-packet.h"
#include "flow.h"
#include "ovs-thread.h"
#include "packets.h"
#include "timeval.h"

enum { FRAME = 60, IP = 14, L4 = 34, BURST = 32 };

struct sides {
    uint32_t source, destination;
    uint16_t source_port, destination_port;
};

struct segment {
    uint16_t flags;
    uint32_t sequence, acknowledgment;
};

static const struct segment OPENING = { TCP_SYN, 1000, 0 };
static const struct segment ANSWER = { TCP_SYN | TCP_ACK, 500000, 1001 };
static const struct segment ORIGINAL = { TCP_ACK, 1001, 500001 };
static const struct segment REPLY = { TCP_ACK, 500001, 1001 };

static struct conntrack *ct;
static struct dp_packet_batch batch;
static bool has_segments;
static struct nat_action_info_t begins, translates;
static const struct nat_action_info_t *begin_nat, *later_nat;

/* The addresses of a connection: a client of its own, and one of 200 servers. */
static struct sides
sides_of(uint32_t number)
{
    struct sides sides = { 0x0a000000 + number, 0xc0a80001 + number % 200,
                           1024 + (uint64_t) number * 40503 % 60000, 443 };
    return sides;
}

static void
write_frame(uint8_t *frame, struct sides sides, const struct segment *segment)
{
    static const uint8_t start[] = { 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 8, 0, 0x45, 0, 0, 0, 0, 0,
                                     0, 0, 64, 0 };
    memset(frame, 0, FRAME);
    memcpy(frame, start, sizeof start);
    struct ip_header *ip = (struct ip_header *) (frame + IP);
    ip->ip_tot_len = htons(has_segments ? 40 : 46);
    ip->ip_proto = has_segments ? IPPROTO_TCP : IPPROTO_UDP;
    put_16aligned_be32(&ip->ip_src, htonl(sides.source));
    put_16aligned_be32(&ip->ip_dst, htonl(sides.destination));
    ip->ip_csum = csum(ip, sizeof *ip);
    uint32_t pseudo = packet_csum_pseudoheader(ip);
    if (has_segments) {
        struct tcp_header *tcp = (struct tcp_header *) (frame + L4);
        tcp->tcp_src = htons(sides.source_port);
        tcp->tcp_dst = htons(sides.destination_port);
        put_16aligned_be32(&tcp->tcp_seq, htonl(segment->sequence));
        put_16aligned_be32(&tcp->tcp_ack, htonl(segment->acknowledgment));
        tcp->tcp_ctl = TCP_CTL(segment->flags, 5);
        tcp->tcp_winsz = htons(0xffff);
        tcp->tcp_csum = csum_finish(csum_continue(pseudo, tcp, 20));
    } else {
        struct udp_header *udp = (struct udp_header *) (frame + L4);
        udp->udp_src = htons(sides.source_port);
        udp->udp_dst = htons(sides.destination_port);
        udp->udp_len = htons(26);
        udp->udp_csum = csum_finish(csum_continue(pseudo, udp, 26));
    }
}

static struct sides
reversed_sides(const uint8_t *frame)
{
    const struct ip_header *ip = (const struct ip_header *) (frame + IP);
    const struct udp_header *ports = (const struct udp_header *) (frame + L4);
    struct sides sides = { ntohl(get_16aligned_be32(&ip->ip_dst)),
                           ntohl(get_16aligned_be32(&ip->ip_src)),
                           ntohs(ports->udp_dst), ntohs(ports->udp_src) };
    return sides;
}

/* Tracks up to 32 frames; copies what left over them if `keeps`. */
static void
track(uint8_t *frames, size_t count, bool commits, bool keeps)
{
    dp_packet_batch_init(&batch);
    static struct dp_packet *pool[BURST];
    for (size_t i = 0; i < count; i++) {
        if (!pool[i]) {
            struct flow flow;
            pool[i] = dp_packet_new(FRAME);
            dp_packet_put(pool[i], frames + i * FRAME, FRAME);
            flow_extract(pool[i], &flow);
        }
        memcpy(dp_packet_data(pool[i]), frames + i * FRAME, FRAME);
        pool[i]->md.ct_state = 0;
        pkt_metadata_init_conn(&pool[i]->md);
        dp_packet_batch_add(&batch, pool[i]);
    }
    conntrack_execute(ct, &batch, htons(ETH_TYPE_IP), false, commits, 0, NULL, NULL, 0, 0, NULL,
                      commits ? begin_nat : later_nat, time_msec(), 0);
    for (size_t i = 0; i < count; i++) {
        if (pool[i]->md.ct_state & CS_INVALID || !(pool[i]->md.ct_state & CS_TRACKED)) {
            fprintf(stderr, "a packet is invalid\n");
            exit(1);
        }
        if (!commits && pool[i]->md.ct_state & CS_NEW && has_segments) {
            fprintf(stderr, "a packet has no connection\n");
            exit(1);
        }
        if (keeps) {
            memcpy(frames + i * FRAME, dp_packet_data(pool[i]), FRAME);
        }
    }
}

static double
processor_time_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static uint32_t *
random_order(uint32_t count)
{
    uint32_t *order = xmalloc(count * sizeof *order);
    uint64_t state = 1;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count - 1; i > 0; i--) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t other = (state >> 33) % (i + 1);
        uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    return order;
}

/* Begins the connections; the frames of the traffic that follows, both peers in turn. */
static uint8_t *
begin(uint32_t count)
{
    uint32_t *order = random_order(count);
    uint8_t *traffic = xmalloc((size_t) count * FRAME);
    uint8_t one[BURST * FRAME];
    for (uint32_t start = 0; start < count; start += BURST) {
        uint32_t size = MIN(BURST, count - start);
        struct sides peers[BURST];
        for (uint32_t i = 0; i < size; i++) {
            write_frame(one + i * FRAME, sides_of(order[start + i]), &OPENING);
        }
        track(one, size, true, true);
        for (uint32_t i = 0; i < size; i++) {
            peers[i] = reversed_sides(one + i * FRAME);
            write_frame(one + i * FRAME, peers[i], &ANSWER);
        }
        track(one, size, false, false);
        for (uint32_t i = 0; i < size; i++) {
            write_frame(one + i * FRAME, sides_of(order[start + i]), &ORIGINAL);
            write_frame(traffic + (size_t) (start + i) * FRAME,
                        i % 2 ? peers[i] : sides_of(order[start + i]), i % 2 ? &REPLY : &ORIGINAL);
        }
        track(one, size, false, false);
    }
    free(order);
    return traffic;
}

static void
established(uint32_t count, uint64_t packets, int samples)
{
    uint8_t *traffic = begin(count);
    uint32_t at = 0;
    for (int sample = -1; sample < samples; sample++) {
        uint64_t sent = 0;
        double start = processor_time_ns();
        while (sent < packets) {
            uint32_t size = MIN(BURST, count - at);
            track(traffic + (size_t) at * FRAME, size, false, false);
            at = at + size == count ? 0 : at + size;
            sent += size;
        }
        if (sample >= 0) {
            printf("%f\n", (processor_time_ns() - start) / sent);
        }
    }
    uint32_t there;
    conntrack_get_nconns(ct, &there);
    if (there != count) {
        fprintf(stderr, "%u of %u connections are there\n", there, count);
        exit(1);
    }
}

static double
resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        exit(1);
    }
    fclose(file);
    return (double) resident * sysconf(_SC_PAGESIZE);
}

static void
memory(uint32_t count)
{
    uint8_t one[BURST * FRAME];
    double before = resident_bytes();
    for (uint32_t start = 0; start < count; start += BURST) {
        uint32_t size = MIN(BURST, count - start);
        for (uint32_t i = 0; i < size; i++) {
            write_frame(one + i * FRAME, sides_of(start + i), &OPENING);
        }
        track(one, size, true, false);
    }
    printf("%f\n", (resident_bytes() - before) / count);
}

int
main(int argc, char *argv[])
{
    if (argc != 3 && argc != 6) {
        fprintf(stderr, "usage: see the source\n");
        return 2;
    }
    ct = conntrack_init();
    uint32_t count = strtoul(argv[2], NULL, 0);
    if (argc == 3) {
        memory(count);
        return 0;
    }
    has_segments = !strcmp(argv[1], "tcp");
    if (!strcmp(argv[3], "nat")) {
        begins.nat_action = NAT_ACTION_SRC;
        begins.min_addr.ipv4 = htonl(0xac100001);
        begins.max_addr.ipv4 = htonl(0xac1ffffe);
        begin_nat = &begins;
        later_nat = &translates;
    }
    established(count, strtoull(argv[4], NULL, 0), atoi(argv[5]));
    return 0;
}
