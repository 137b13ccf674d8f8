//! Peers that come back from a save, after traffic that the tracker has not seen.

use super::*;

/// The shifts of both peers.
const SHIFTS: [u8; 2] = [7, 5];

/// One of two hosts that keep to the windows of each other.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// What it sends next.
    next: u32,
    /// What it may send: one past the last byte.
    limit: u32,
    /// What the other has acknowledged.
    acknowledged: u32,
}

/// What a host does next.
#[derive(Clone, Copy, Debug)]
struct Talk {
    is_server: bool,
    /// The most bytes; the other's window may allow fewer.
    len: u32,
    window: u16,
    /// Whether it sends again what is not acknowledged.
    is_again: bool,
}

/// Two hosts, and what a tracker has made of their segments.
struct Conversation {
    hosts: [Host; 2],
    peers: Peers,
}

fn talk() -> impl Strategy<Value = Talk> {
    let len = prop_oneof![2 => Just(0_u32), 3 => 1..65_000_u32];
    let ways = (any::<bool>(), prop::bool::weighted(0.2));
    (ways, len, 1_u16..).prop_map(|((is_server, is_again), len, window)| Talk {
        is_server,
        len,
        window,
        is_again,
    })
}

impl Conversation {
    /// Two hosts after their handshake.
    fn open(client: u32, server: u32) -> Conversation {
        let with_scale = |segment: Segment, at: usize| Segment {
            window_scale: Some(SHIFTS[at]),
            ..segment
        };
        let [ours, theirs] = [client.wrapping_add(1), server.wrapping_add(1)];
        let mut peers = Peers::new(&with_scale(segment(SYN, client, 0, 0), 0));
        let answer = with_scale(segment(SYN | ACK, server, ours, 0), 1);
        peers.update(&answer, SERVER, true);
        let last = segment(ACK, ours, theirs, 0);
        let open = fits(Timeout::TcpEstablished);
        assert_eq!(peers.update(&last, CLIENT, true), open);
        let host = |next: u32, window| Host {
            next,
            limit: next.wrapping_add(window),
            acknowledged: next,
        };
        let hosts = [host(ours, 1_000), host(theirs, 1_000 << SHIFTS[0])];
        Conversation { hosts, peers }
    }

    /// A host's next segment.
    fn segment_of(&mut self, talk: &Talk) -> Segment {
        let (at, other) = (usize::from(talk.is_server), usize::from(!talk.is_server));
        let theirs = self.hosts[other].next;
        let ours = &mut self.hosts[at];
        let sequence = match talk.is_again {
            true => ours.acknowledged,
            false => ours.next,
        };
        let len = talk.len.min(ours.limit.wrapping_sub(sequence));
        let end = sequence.wrapping_add(len);
        if is_before(ours.next, end) {
            ours.next = end;
        }
        let peer = &mut self.hosts[other];
        // A window's end does not move back (RFC 9293, section 3.8.6).
        let rest = peer.limit.wrapping_sub(theirs).div_ceil(1 << SHIFTS[at]);
        let window = talk.window.max(u16::try_from(rest).expect("a window"));
        peer.acknowledged = theirs;
        peer.limit = theirs.wrapping_add(u32::from(window) << SHIFTS[at]);
        Segment {
            window,
            ..segment(ACK, sequence, theirs, len)
        }
    }

    /// Lets the tracker see a host's next segment.
    fn judge(&mut self, talk: &Talk) -> Judgement {
        let segment = self.segment_of(talk);
        self.peers.update(&segment, talk.is_server, true)
    }

    /// Lets both hosts send bytes that the tracker does not see, after which it comes back.
    fn miss(&mut self, passed: [u32; 2]) {
        for (host, passed) in self.hosts.iter_mut().zip(passed) {
            let window = host.limit.wrapping_sub(host.next);
            host.next = host.next.wrapping_add(passed);
            host.acknowledged = host.next;
            host.limit = host.next.wrapping_add(window);
        }
        self.peers.set_stale();
    }
}

/// A connection that is open, and stale after `passed` bytes of both hosts.
fn missed(passed: [u32; 2]) -> Conversation {
    let mut conversation = Conversation::open(10, 20);
    conversation.miss(passed);
    conversation
}

fn data(is_server: bool, len: u32) -> Talk {
    Talk {
        is_server,
        len,
        window: 2_000,
        is_again: false,
    }
}

proptest! {
    /// Segments that keep to the windows fit, whatever was missed, and others do not afterwards.
    #[test]
    fn what_hosts_send_after_a_gap_fits(
        numbers in any::<[u32; 2]>(),
        before in prop::collection::vec(talk(), 0..20),
        gaps in prop::collection::vec(
            (any::<[u32; 2]>(), prop::collection::vec(talk(), 0..20)),
            1..3,
        ),
        is_server: bool,
    ) {
        let open = fits(Timeout::TcpEstablished);
        let mut conversation = Conversation::open(numbers[0], numbers[1]);
        for talk in &before {
            prop_assert_eq!(conversation.judge(talk), open);
        }
        for (passed, after) in &gaps {
            conversation.miss(*passed);
            for talk in after {
                prop_assert_eq!(conversation.judge(talk), open, "{:?}", talk);
            }
        }
        for is_server in [CLIENT, SERVER, CLIENT] {
            prop_assert_eq!(conversation.judge(&data(is_server, 9)), open);
        }
        prop_assert!(!conversation.peers.is_stale());
        let mut far = conversation.segment_of(&data(is_server, 9));
        far.len = 9;
        far.sequence = far.sequence.wrapping_add(1 << 30);
        let before = conversation.peers;
        let judgement = conversation.peers.update(&far, is_server, true);
        prop_assert_eq!(judgement, Judgement::OutOfWindow);
        prop_assert_eq!(conversation.peers, before);
    }
}

#[test]
fn both_ways_fit_after_megabytes_that_were_missed() {
    let open = fits(Timeout::TcpEstablished);
    for first in [CLIENT, SERVER] {
        let mut conversation = missed([500_000_000, 1_500_000_000]);
        for is_server in [first, first, !first, first, !first] {
            assert_eq!(conversation.judge(&data(is_server, 500)), open);
        }
        let [client, server] = conversation.hosts;
        // The receiver's window is 2,000 times its scale, from what it acknowledged last.
        let mut outside = segment(ACK, client.limit, server.next, 1);
        let mut peers = conversation.peers;
        assert_eq!(peers.update(&outside, CLIENT, true), Judgement::OutOfWindow);
        outside.sequence -= 1;
        assert_eq!(peers.update(&outside, CLIENT, true), open);
    }
}

/// Invariant 1: the window may have grown, and the peer that announced it is still silent.
#[test]
fn a_window_that_grew_in_the_gap_is_not_too_small() {
    let open = fits(Timeout::TcpEstablished);
    let mut conversation = missed([70_000_000, 0]);
    conversation.hosts[0].limit = conversation.hosts[0].next + 4_000_000;
    for _ in 0..60 {
        assert_eq!(conversation.judge(&data(CLIENT, 60_000)), open);
    }
}

/// Invariant 3.
#[test]
fn a_syn_begins_the_next_connection() {
    let syn = segment(SYN, 1 << 30, 0, 0);
    for is_server in [CLIENT, SERVER] {
        let mut conversation = missed([0, 0]);
        let judgement = conversation.peers.update(&syn, is_server, true);
        assert_eq!(judgement, Judgement::Reopens);
        for is_server in [CLIENT, SERVER] {
            conversation.judge(&data(is_server, 0));
        }
        let judgement = conversation.peers.update(&syn, is_server, true);
        assert_eq!(judgement, Judgement::OutOfWindow, "both have spoken");
    }
}

#[test]
fn an_attempt_without_an_answer_goes_on() {
    let mut peers = Peers::new(&segment(SYN, 10, 0, 0));
    peers.set_stale();
    let again = segment(SYN, 5_000_000, 0, 0);
    let repeats = Judgement::Repeats(Timeout::TcpSynSent);
    assert_eq!(peers.update(&again, CLIENT, true), repeats);
    assert_eq!(peers, Peers::new(&again));
}

/// Invariant 4.
#[test]
fn a_reset_ends_what_it_names_rightly() {
    let passes = Judgement::Fits(None);
    let mut conversation = missed([1_000_000, 0]);
    let [client, server] = conversation.hosts;
    let reset = segment(RST, client.next, 0, 0);
    let before = conversation.peers;
    assert_eq!(conversation.peers.update(&reset, CLIENT, true), passes);
    assert_eq!(conversation.peers, before);
    let mut idle = before;
    let next = segment(RST, server.next, 0, 0);
    let ended = fits(Timeout::TcpClose);
    assert_eq!(idle.update(&next, SERVER, true), ended);
    // The server's acknowledgment tells where the client is.
    conversation.judge(&data(SERVER, 0));
    assert_eq!(conversation.peers.update(&reset, CLIENT, true), ended);
    let states = conversation.peers.shown().map(|peer| peer.state);
    assert_eq!(states, [TimeWait; 2]);
    let mut wrong = missed([0, 0]);
    wrong.judge(&data(SERVER, 0));
    let far = segment(RST, server.next + 2, 0, 0);
    let judgement = wrong.peers.update(&far, SERVER, true);
    assert_eq!(judgement, Judgement::OutOfWindow, "it has spoken");
}

/// Invariant 5.
#[test]
fn a_missed_answer_leaves_the_scales_unknown() {
    for first in [CLIENT, SERVER] {
        let syn = Segment {
            window_scale: Some(SHIFTS[0]),
            ..segment(SYN, 9, 0, 0)
        };
        let mut conversation = Conversation::open(9, 19);
        conversation.peers = Peers::new(&syn);
        conversation.miss([5_000_000, 5_000_000]);
        for is_server in [first, !first, first, !first, first, !first] {
            let judgement = conversation.judge(&data(is_server, 60_000));
            assert!(matches!(judgement, Judgement::Fits(Some(_))));
        }
        let peers = conversation.peers.shown();
        assert_eq!(
            peers.map(|peer| (peer.state, peer.flags)),
            [(Established, TcpPeerFlags::BE_LIBERAL); 2]
        );
    }
}

#[test]
fn the_answer_that_was_not_missed_tells_its_scale() {
    let syn = Segment {
        window_scale: Some(SHIFTS[0]),
        ..segment(SYN, 9, 0, 0)
    };
    let mut peers = Peers::new(&syn);
    peers.set_stale();
    let answer = Segment {
        window_scale: Some(SHIFTS[1]),
        ..segment(SYN | ACK, 19, 10, 0)
    };
    let opening = fits(Timeout::TcpSynRecv);
    assert_eq!(peers.update(&answer, SERVER, true), opening);
    let scales = peers.shown().map(|peer| peer.window_scale);
    assert_eq!(scales, SHIFTS);
}
