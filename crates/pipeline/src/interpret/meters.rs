//! Meters that a walk meets: those that rules name, and those of packets for controllers and
//! for the slow path.

use thalweg_packet::{FieldId, standard as f};

use super::observer::Observer;
use super::walk::{Next, Walk};
use crate::action::Action;
use crate::effect::Effect;
use crate::meters::{MeterId, MeterPlace};
use crate::trace::Input;

/// Fields that Open vSwitch's datapath cannot write (`commit_set_nw_action`).
const BY_SLOW_PATH: [FieldId; 10] = [
    f::ARP_OP,
    f::ARP_SPA,
    f::ARP_TPA,
    f::ARP_SHA,
    f::ARP_THA,
    f::ICMP_TYPE,
    f::ICMP_CODE,
    f::ND_TARGET,
    f::ND_SLL,
    f::ND_TLL,
];

impl<O: Observer> Walk<'_, O> {
    /// Measures the packet. A meter that does not exist lets it pass. Behind one that remarks, the
    /// packet is looked up again.
    ///
    /// Open vSwitch's datapath rewrites a packet when it next leaves, so that a meter sees it
    /// before (`xlate_meter_action`). One that remarks sees it as rewritten.
    pub(super) fn measure(&mut self, meter: MeterId) -> Next {
        let Some(place) = self.place_of(meter) else {
            return Next::Continue;
        };
        if self.remarks(&Action::Meter(meter)) {
            self.emit(Effect::Remark(place));
            return Next::Freeze;
        }
        let before = self.effects.len();
        self.emit(Effect::Meter(place));
        if self.effects.len() > before {
            let kept = self.effects[..before]
                .iter()
                .rposition(|effect| !is_rewrite(effect));
            self.effects[kept.map_or(0, |kept| kept + 1)..].rotate_right(1);
        }
        Next::Continue
    }

    /// Whether an action is a meter that remarks, and so needs the headers of the packet.
    pub(super) fn remarks(&mut self, action: &Action) -> bool {
        let Action::Meter(meter) = action else {
            return false;
        };
        self.ask(Input::Meter(*meter));
        let known = self.pipeline.meter(*meter, self.version);
        known.is_some_and(|known| known.meter.remarks())
    }

    /// The meter that packets for the controller pass: the one that their action names, or
    /// that of all of them (`xlate_controller_action`).
    pub(super) fn controller_meter(&mut self, named: Option<u32>) -> Option<MeterPlace> {
        let bridge = self.bridge();
        let named = named.and_then(|number| self.place_of(bridge.meter(number)));
        named.or_else(|| self.place_of(bridge.meter(MeterId::CONTROLLER)))
    }

    /// The meter that a packet passes before the slow path handles it, if that does.
    pub(super) fn slow_path_meter(&mut self) -> Option<MeterPlace> {
        // A packet-out is not handed over: it begins there.
        if self.is_packet_out || !self.effects.iter().any(is_slow) {
            return None;
        }
        let bridge = self.bridge();
        self.place_of(bridge.meter(MeterId::SLOW_PATH))
    }

    fn place_of(&mut self, meter: MeterId) -> Option<MeterPlace> {
        self.ask(Input::Meter(meter));
        let known = self.pipeline.meter(meter, self.version);
        known.map(|known| known.place)
    }
}

/// Where the drops of a list are counted: in front, so that the last send takes the packet;
/// behind the last meter if nothing is sent, because that has counted what it dropped.
pub(super) fn place_of_drops(effects: &[Effect], sends: bool) -> usize {
    let is_meter = |effect: &Effect| matches!(effect, Effect::Meter(_));
    let meter = effects.iter().rposition(is_meter).filter(|_| !sends);
    meter.map_or(0, |place| place + 1)
}

/// Whether Open vSwitch's datapath hands the packet to its control side.
fn is_slow(effect: &Effect) -> bool {
    match effect {
        Effect::Slow { .. } => true,
        Effect::Set { field, .. } => BY_SLOW_PATH.contains(field),
        effect => effect.lists().flatten().any(is_slow),
    }
}

/// Whether an effect writes to the packet or to values that go with it.
fn is_rewrite(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Set { .. }
            | Effect::DecTtl
            | Effect::DecMplsTtl
            | Effect::PushVlan { .. }
            | Effect::PopVlan
            | Effect::PushMpls { .. }
            | Effect::PopMpls { .. }
            | Effect::PushEthernet
            | Effect::PopEthernet
            | Effect::Encapsulate { .. }
            | Effect::Decapsulate { .. }
            | Effect::Queue(_)
    )
}
