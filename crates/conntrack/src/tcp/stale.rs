//! Peers that come back from a save: they have spoken since, and the tracker has not heard it.
//!
//! Such a peer is *stale*. Its numbers are those of the save, gigabytes ago perhaps, and the
//! connection may have ended since. A peer is stale until its next segment fits.
//!
//! 1. A window has two ends: one peer's numbers, and what the other acknowledged and announced.
//!    So nothing is compared with the windows until neither peer is stale.
//! 2. The first segment of a stale peer sets the peer's numbers outright, and a segment sets
//!    what a stale receiver has sent and may send by what it acknowledges and announces.
//! 3. A SYN begins the next connection, since this one may have ended. An attempt that had no
//!    answer is one still.
//! 4. A reset of a stale peer that does not name the next byte, as far as that is known, passes
//!    and changes nothing. The receiver can tell whether it is right (RFC 5961, section 3.2);
//!    else one guess of a stranger would end a connection.
//! 5. If the answer to a SYN was missed, the scales of windows are unknown, as those of a
//!    connection picked up in the middle are.

use super::{Fit, Judgement, Peer, Peers, Scale, Segment, distance, flag, is_before};
use crate::entry::TcpState;
use crate::timeout::Timeout;

/// What a peer is that comes back: a save has no mark, because all that it has is stale.
pub(super) fn is_stale_when_read() -> bool {
    true
}

impl Peers {
    /// Marks both peers as stale.
    pub(crate) fn set_stale(&mut self) {
        for peer in &mut self.0 {
            peer.is_stale = true;
        }
    }

    /// Whether a peer has not spoken since the connection came back.
    pub(super) fn is_stale(&self) -> bool {
        self.0[0].is_stale | self.0[1].is_stale
    }

    /// Does what [`Peers::update`] does, for peers of which one is stale.
    #[cold]
    pub(super) fn update_stale(
        &mut self,
        segment: &Segment,
        is_reply: bool,
        checks_sequence: bool,
    ) -> Judgement {
        let [mut source, mut destination] = self.sides(is_reply);
        if segment.flags & (flag::SYN | flag::ACK) == flag::SYN {
            // Invariant 3.
            if source.state > TcpState::SynSent || destination.state != TcpState::Closed {
                return Judgement::Reopens;
            }
            *self = Peers::new(segment);
            return Judgement::Repeats(Timeout::TcpSynSent);
        }
        if segment.has(flag::RST) && checks_sequence && !source.may_reset(segment) {
            return match source.is_stale {
                true => Judgement::Fits(None), // Invariant 4.
                false => Judgement::OutOfWindow,
            };
        }
        if !segment.has(flag::SYN) {
            forget_scales(&mut source, &mut destination);
        }
        // Invariant 2.
        if source.is_stale {
            source.low = segment.sequence;
        }
        if destination.is_stale && segment.flags & (flag::ACK | flag::RST) == flag::ACK {
            destination.low = segment.acknowledgment;
            destination.high = segment.acknowledgment;
        }
        let mut fit = Fit::new(source, destination, segment);
        fit.advance();
        if destination.is_stale || is_before(fit.source.high, fit.source.low) {
            let reach = fit.destination.max_window << fit.destination_shift;
            fit.source.high = fit.source.low.wrapping_add(reach.max(1));
        }
        fit.source.is_stale = false;
        fit.change_states(segment);
        let timeout = fit.timeout();
        self.set_sides(fit, is_reply);
        Judgement::Fits(Some(timeout))
    }
}

impl Peer {
    /// Whether a reset names the next byte, or the peer has sent none.
    fn may_reset(&self, segment: &Segment) -> bool {
        self.state < TcpState::SynSent || distance(self.low, segment.sequence).unsigned_abs() <= 1
    }
}

/// Invariant 5, for a segment that is no SYN: if a peer has not spoken, its SYN was missed.
fn forget_scales(source: &mut Peer, destination: &mut Peer) {
    let peers = [source, destination];
    let is_missed = peers.iter().any(|peer| peer.state < TcpState::SynSent);
    let has_shift = peers
        .iter()
        .any(|peer| matches!(peer.scale, Scale::Shift(_)));
    if is_missed && has_shift {
        for peer in peers {
            peer.scale = Scale::Unknown;
        }
    }
}
