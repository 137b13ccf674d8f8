//! Packets of hostile ends through the tracker of connections.
//!
//! ```text
//!   input: packets, each a byte for the request, one for the time that passes, two for the
//!          length, and the frame
//! ```
//!
//! 1. No bytes make the tracker, the reassembly or the parser of announcements panic.
//! 2. A frame keeps its length. An invalid packet keeps its bytes.
//! 3. The table has no more connections than it may have.

use std::net::Ipv4Addr;
use std::time::Duration;

use thalweg_conntrack::{
    AddressTranslation, Bits, Config, CtState, Fragment, FragmentContext, FragmentSettings,
    Fragments, Held, Previous, Selection, TrackRequest, Tracker, TranslationKind, text,
};
use thalweg_packet::{Headers, Instant};

/// Most connections of the table.
const CONNECTIONS: u32 = 4;

/// Runs one input.
pub fn run(input: &[u8]) {
    let tracker = Tracker::new(Config {
        shard_count: 2,
        max_connections: CONNECTIONS,
        max_expectations: 4,
        ..Config::default()
    });
    let mut fragments = Fragments::new(FragmentSettings::default());
    let (mut now, mut rest) = (Instant::ZERO, input);
    while let [asked, seconds, high, low, packet @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(packet.len());
        let (frame, behind) = packet.split_at(len);
        rest = behind;
        now = now + Duration::from_secs((*seconds).into());
        let Ok(headers) = Headers::parse(frame) else {
            continue;
        };
        track(&tracker, *asked, frame, &headers, now);
        let context = FragmentContext::default();
        let fragment = Fragment {
            token: (),
            frame: frame.to_vec(),
        };
        if let Held::Complete(whole) = fragments.hold(fragment, &headers, context, now) {
            track(&tracker, *asked, &whole.whole, &whole.headers, now);
        }
        tracker.expire(now, 16);
        fragments.expire(now, 16);
        assert!(tracker.connection_count() <= CONNECTIONS);
    }
    if let Ok(words) = std::str::from_utf8(input) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let _ = text::parse_flush(&words);
        let _ = text::parse_set_limits(&words);
    }
}

fn track(tracker: &Tracker, asked: u8, frame: &[u8], headers: &Headers, now: Instant) {
    let bit = |bit: u8| asked >> bit & 1 == 1;
    let kind = match bit(3) {
        true => TranslationKind::Source,
        false => TranslationKind::Destination,
    };
    let address = |last: u8| Ipv4Addr::new(10, 9, 9, last).to_ipv6_mapped();
    let addresses = Some((address(1), address(2)));
    let target = (bit(0) && bit(2)).then_some((kind, addresses, Some((1_000, 1_001))));
    let request = TrackRequest {
        zone: u16::from(bit(4)),
        is_commit: bit(0),
        is_forced: bit(0) && bit(1),
        mark: bit(5).then_some(Bits { value: 1, mask: 3 }),
        translation: (bit(2) || bit(6)).then_some(AddressTranslation {
            target,
            selection: Selection::Random,
            is_persistent: false,
        }),
        ..TrackRequest::default()
    };
    let mut bytes = frame.to_vec();
    let previous = Previous::default();
    let random = u64::from(asked) << 7;
    let told = tracker.track(&mut bytes, headers, &request, previous, now, random);
    assert_eq!(bytes.len(), frame.len());
    assert!(told.state.has(CtState::TRACKED));
    if told.state.has(CtState::INVALID) {
        assert_eq!(bytes, frame, "an invalid packet is left alone");
    }
}
