//! The known and intended differences from Open vSwitch.
//!
//! `docs/differences-from-open-vswitch.md` has an example of each under the same name. A
//! difference is explained only by evidence in the case itself, so that no other difference
//! hides behind it. Where possible, our answer is changed by exactly the difference, and must
//! then be equal. All are counted.

use thalweg_packet::{FieldDescriptor, FieldId, Headers, Scalar, Source};
use thalweg_packet::{standard as f, standard::header as h};
use thalweg_pipeline::{Action, Actions, Effect, Output, Pipeline, Station, StepKind, Subfield};

use super::answer::{Answer, Pass};
use super::emulation;
use super::switches::Observation;

/// The datapath number of the local port, which the dummy datapath gives to `br0`.
const LOCAL: u32 = 100;

/// A known difference; the document has a section on each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Explanation {
    LocalPort,
    AbsentHeader,
    IpVersion,
    ProtocolZero,
    ArpOperation,
    ReverseArp,
    ThirdTag,
    DropEligible,
    FourthLabel,
    ContradictingPop,
    PriorityTag,
    TagWrittenAway,
    LearnsLater,
    LaterFragment,
    BucketsSet,
    HiddenTag,
    CloneThatPops,
    FrameLength,
}

impl Explanation {
    /// All explanations, in the order of the document.
    #[cfg(all(test, feature = "privileged-tests"))]
    pub(super) const ALL: [Explanation; 18] = [
        Explanation::LocalPort,
        Explanation::AbsentHeader,
        Explanation::IpVersion,
        Explanation::ProtocolZero,
        Explanation::ArpOperation,
        Explanation::ReverseArp,
        Explanation::ThirdTag,
        Explanation::DropEligible,
        Explanation::FourthLabel,
        Explanation::ContradictingPop,
        Explanation::PriorityTag,
        Explanation::TagWrittenAway,
        Explanation::LearnsLater,
        Explanation::LaterFragment,
        Explanation::BucketsSet,
        Explanation::HiddenTag,
        Explanation::CloneThatPops,
        Explanation::FrameLength,
    ];

    /// The section title in the document.
    pub(super) fn title(self) -> &'static str {
        match self {
            Explanation::LocalPort => "Flooding leaves out the local port",
            Explanation::AbsentHeader => "Absent headers are not written",
            Explanation::IpVersion => "An IP header has its EtherType's version",
            Explanation::ProtocolZero => "IP of protocol 0 is rewritten",
            Explanation::ArpOperation => "ARP of any operation is rewritten",
            Explanation::ReverseArp => "RARP is rewritten",
            Explanation::ThirdTag => "A third tag is pushed without losing one",
            Explanation::DropEligible => "A tag keeps its drop eligible bit",
            Explanation::FourthLabel => "A stack may have more than three labels",
            Explanation::ContradictingPop => "Popping a label pops one label",
            Explanation::PriorityTag => "`normal` keeps priority tags",
            Explanation::TagWrittenAway => "A tag that is written away is gone",
            Explanation::LaterFragment => "Later fragments keep their payload",
            Explanation::BucketsSet => "A bucket leaves the action set alone",
            Explanation::HiddenTag => "Popping a tag shows what is behind the third",
            Explanation::CloneThatPops => "A list goes on after a clone that pops a label",
            Explanation::FrameLength => "A frame with a length keeps it",
            Explanation::LearnsLater => "`normal` learns once the packet is gone",
        }
    }
}

/// Both answers without what Open vSwitch sends to its local port. Queues are left out if they
/// agree, since no explanation is about them.
fn comparable(observation: &Observation) -> (Answer, Answer) {
    let (mut ours, mut theirs) = (observation.ours.clone(), observation.theirs.clone());
    theirs.sent.retain(|(port, _)| *port != LOCAL);
    theirs.queues.retain(|(port, _)| *port != LOCAL);
    if theirs.queues == ours.queues {
        theirs.queues.clear();
        ours.queues.clear();
    }
    (ours, theirs)
}

/// The explanations of `observation`; empty if the answers differ for no known reason.
pub(super) fn explain(observation: &Observation, pipeline: &Pipeline) -> Vec<Explanation> {
    let mut explanations = Vec::new();
    let (ours, theirs) = comparable(observation);
    if theirs.sent.len() != observation.theirs.sent.len() {
        explanations.push(Explanation::LocalPort);
    }
    let fields = pipeline.fields();
    if theirs == ours {
        return explanations;
    }
    let ours = &ours;
    let passes = observation.passes.iter();
    let actions = passes.map(|pass| actions_of(pass, pipeline));
    let actions: Vec<Vec<Action>> = actions.collect();
    let runs = || observation.passes.iter().zip(&actions);
    let has_normal = runs().any(|(_, actions)| actions.iter().any(is_normal));
    let pushes_label = runs().any(|(_, actions)| actions.iter().any(is_push));
    let has_contradiction = |pass: &Pass| emulation::has_contradicting_pop(pass, fields);
    let has_cut_walk = observation.passes.len() > 1;
    let is_third_tag = |emulated: Answer| {
        let (mut emulated, mut theirs) = (emulated, theirs.clone());
        if has_normal {
            (emulated, theirs) = (
                without_priority_tags(&emulated),
                without_priority_tags(&theirs),
            );
        }
        has_cut_walk || without_drop_eligible(&emulated) == without_drop_eligible(&theirs)
    };
    let third_tag = emulation::losing_third_tags(&observation.passes[0], fields);
    if third_tag.is_some_and(is_third_tag) {
        explanations.push(Explanation::ThirdTag);
    } else if without_drop_eligible(ours) == without_drop_eligible(&theirs) {
        explanations.push(Explanation::DropEligible);
    } else if has_normal && without_priority_tags(ours) == without_priority_tags(&theirs) {
        explanations.push(Explanation::PriorityTag);
    } else if pushes_label && without_length(ours) == without_length(&theirs) {
        explanations.push(Explanation::FrameLength);
    } else if runs().any(|(pass, actions)| writes_tag_away(pass, actions)) {
        explanations.push(Explanation::TagWrittenAway);
    } else if observation.passes.iter().any(learns_what_it_looks_for) {
        explanations.push(Explanation::LearnsLater);
    } else if has_cut_walk && observation.passes.iter().any(rewrites_later_fragment) {
        explanations.push(Explanation::LaterFragment);
    } else if observation.is_recirculated && runs().any(|(pass, _)| clones_pop(pass, pipeline)) {
        explanations.push(Explanation::CloneThatPops);
    } else if has_cut_walk && observation.passes.iter().any(pops_above_third_tag) {
        explanations.push(Explanation::HiddenTag);
    } else if runs().any(|(pass, _)| bucket_changes_set(pass, pipeline)) {
        explanations.push(Explanation::BucketsSet);
    } else if observation.passes.iter().any(rewrites_protocol_zero) {
        explanations.push(Explanation::ProtocolZero);
    } else if runs().any(|(pass, actions)| has_fourth_label(pass, actions, fields)) {
        explanations.push(Explanation::FourthLabel);
    } else if observation.passes.iter().any(has_other_version) {
        explanations.push(Explanation::IpVersion);
    } else if runs().any(|(pass, _)| writes_odd_arp(pass)) {
        explanations.push(Explanation::ArpOperation);
    } else if runs().any(|(pass, _)| writes_rarp(pass)) {
        explanations.push(Explanation::ReverseArp);
    } else if runs().any(|(pass, actions)| writes_absent_header(pass, actions, pipeline)) {
        explanations.push(Explanation::AbsentHeader);
    } else if observation.passes.iter().any(has_contradiction) {
        explanations.push(Explanation::ContradictingPop);
    } else {
        explanations.clear();
    }
    explanations
}

/// Every action of every rule and bucket that a pass met, including nested ones.
fn actions_of(pass: &Pass, pipeline: &Pipeline) -> Vec<Action> {
    let mut actions = Vec::new();
    for list in lists_of(pass, pipeline) {
        flatten(&list, &mut actions);
    }
    actions
}

/// Whether a rule that the pass met clones the packet, and pops a label of the clone or ends its
/// pass. What the clone resubmits to counts too.
fn clones_pop(pass: &Pass, pipeline: &Pipeline) -> bool {
    let lists = lists_of(pass, pipeline);
    let ends_pass = lists
        .iter()
        .any(|list| list.contains(&Action::DebugRecirculation));
    lists
        .iter()
        .flat_map(|list| list.iter())
        .any(|action| match action {
            Action::Clone(nested) => {
                let mut inside = Vec::new();
                flatten(nested, &mut inside);
                let is_end = |action: &Action| {
                    matches!(action, Action::PopMpls(_) | Action::DebugRecirculation)
                };
                inside.iter().any(is_end) || ends_pass && inside.iter().any(looks_up)
            }
            _ => false,
        })
}

fn looks_up(action: &Action) -> bool {
    matches!(
        action,
        Action::Resubmit { .. } | Action::Output(Output::Table | Output::Field(_))
    )
}

/// The action lists of every rule and bucket that a pass met.
fn lists_of(pass: &Pass, pipeline: &Pipeline) -> Vec<Actions> {
    let mut lists = Vec::new();
    for kind in pass.walk.trace.kinds() {
        match kind {
            StepKind::Lookup {
                rule: Some(rule), ..
            }
            | StepKind::Resumption { rule: Some(rule) } => {
                let rule = pipeline.rule(rule).expect("the walk met it");
                lists.push(rule.actions.clone());
            }
            StepKind::Bucket {
                group,
                bucket: Some(bucket),
            } => {
                let group = pipeline
                    .group(group, pipeline.version())
                    .expect("the walk met it");
                lists.push(group.buckets[bucket as usize].actions.clone());
            }
            _ => {}
        }
    }
    lists
}

fn flatten(list: &[Action], into: &mut Vec<Action>) {
    for action in list {
        match action {
            Action::Clone(nested) | Action::WriteActions(nested) => flatten(nested, into),
            action => into.push(action.clone()),
        }
    }
}

/// Whether an action outputs to `normal`, or to a field that may hold its number.
fn is_normal(action: &Action) -> bool {
    matches!(action, Action::Output(Output::Normal | Output::Field(_)))
}

fn is_push(action: &Action) -> bool {
    matches!(action, Action::PushMpls(_))
}

/// Whether a packet gets a fourth label, or may have one when its first is popped.
fn has_fourth_label(pass: &Pass, actions: &[Action], fields: &[FieldDescriptor]) -> bool {
    labels_at_most(pass, actions) > 3 || emulation::has_fourth_label(pass, fields)
}

/// Labels that the packet would have if all pushes that the pass met added to its own.
///
/// A push with no later output is no effect of ours, but makes Open vSwitch drop everything.
/// Three labels on arrival may be more, which Open vSwitch only finds out when it pops one.
fn labels_at_most(pass: &Pass, actions: &[Action]) -> usize {
    let stack = [h::MPLS_0, h::MPLS_1, h::MPLS_2];
    let labels = stack.into_iter().filter(|label| pass.headers.has(*label));
    let pushes = actions.iter().filter(|action| is_push(action));
    let is_popped = actions
        .iter()
        .any(|action| matches!(action, Action::PopMpls(_)));
    let is_perhaps_more = is_popped && pass.headers.has(h::MPLS_2);
    labels.count() + pushes.count() + usize::from(is_perhaps_more)
}

/// Whether tags are popped and one is pushed, and a rule that the pass met clears the VLAN
/// presence bit.
fn writes_tag_away(pass: &Pass, actions: &[Action]) -> bool {
    let present = u128::from(f::VLAN_PRESENT);
    let may_clear = |bits: &Subfield| {
        bits.slices.iter().any(|slice| {
            let bits = slice.offset..slice.offset + slice.width_bits;
            slice.field == f::VLAN_TCI && bits.contains(&12)
        })
    };
    let writes_away = |action: &Action| match action {
        Action::SetField(writes) => writes.iter().any(|write| {
            let is_cleared = write.mask & present != 0 && write.value & present == 0;
            write.field == f::VLAN_TCI && is_cleared
        }),
        Action::Move { destination, .. } | Action::Pop(destination) => may_clear(destination),
        _ => false,
    };
    let effects = &pass.walk.effects;
    let is_pop = |effect: &Effect| matches!(effect, Effect::PopVlan);
    let is_push = |effect: &Effect| matches!(effect, Effect::PushVlan { tpid: 0x8100, .. });
    has_effect(effects, &is_pop) && has_effect(effects, &is_push) && actions.iter().any(writes_away)
}

fn has_effect(effects: &[Effect], is_it: &dyn Fn(&Effect) -> bool) -> bool {
    let is_inside = |effect: &Effect| effect.lists().any(|nested| has_effect(nested, is_it));
    effects
        .iter()
        .any(|effect| is_it(effect) || is_inside(effect))
}

/// Whether a tag is popped from a packet of three, so that it is parsed again.
fn pops_above_third_tag(pass: &Pass) -> bool {
    let ether_type = pass.headers.scalar(Scalar::EtherType);
    let has_three = pass.headers.has(h::VLAN_INNER) && matches!(ether_type, 0x8100 | 0x88a8);
    has_three && !pass.walk.continuations.is_empty()
}

/// Whether a rule that a bucket led to changes the action set or the stack.
fn bucket_changes_set(pass: &Pass, pipeline: &Pipeline) -> bool {
    let mut bucket_depth = None;
    pass.walk.trace.steps().any(|step| {
        if bucket_depth.is_some_and(|depth| step.depth <= depth) {
            bucket_depth = None;
        }
        match step.kind {
            StepKind::Bucket { .. } => {
                bucket_depth = bucket_depth.or(Some(step.depth));
                false
            }
            StepKind::Lookup {
                rule: Some(rule), ..
            } => {
                let rule = pipeline.rule(rule).expect("the walk met it");
                bucket_depth.is_some() && rule.actions.iter().any(changes_set)
            }
            _ => false,
        }
    })
}

fn changes_set(action: &Action) -> bool {
    matches!(
        action,
        Action::WriteActions(_) | Action::ClearActions | Action::Push(_) | Action::Pop(_)
    )
}

/// Whether an action of the pass uses a header that the EtherType or protocol announces but
/// the packet lacks.
fn writes_absent_header(pass: &Pass, actions: &[Action], pipeline: &Pipeline) -> bool {
    let headers = &pass.headers;
    let is_absent = |field: FieldId| {
        let source = &pipeline.fields()[field.index()].source;
        match source {
            Source::Wire(places) => !places.iter().any(|place| headers.has(place.header)),
            Source::Scalar(Scalar::ArpOperation) => !headers.has(h::ARP),
            _ => false,
        }
    };
    let is_malformed = is_malformed(headers);
    actions.iter().any(|action| match action {
        _ if !is_malformed => false,
        Action::SetField(writes) => writes.iter().any(|write| is_absent(write.field)),
        Action::Move { destination, .. } | Action::Pop(destination) => destination
            .slices
            .iter()
            .any(|slice| is_absent(slice.field)),
        Action::DecTtl => is_absent(f::IP_TTL),
        Action::DecMplsTtl => is_absent(f::MPLS_TTL),
        _ => false,
    })
}

/// Whether a header is announced but absent.
fn is_malformed(headers: &Headers) -> bool {
    let network = match headers.scalar(Scalar::EtherType) {
        0x0800 => h::IPV4,
        0x86dd => h::IPV6_CHAIN,
        0x0806 | 0x8035 => h::ARP,
        0x8847 | 0x8848 => h::MPLS_0,
        _ => return false,
    };
    let is_later_fragment = headers.scalar(Scalar::IpFragment) & 2 != 0;
    let transport = match headers.scalar(Scalar::IpProtocol) {
        _ if is_later_fragment => None,
        6 => Some(h::TCP),
        17 => Some(h::UDP),
        132 => Some(h::SCTP),
        1 => Some(h::ICMPV4),
        58 => Some(h::ND_TARGET),
        _ => None,
    };
    !headers.has(network) || transport.is_some_and(|transport| !headers.has(transport))
}

/// Whether the header after an IP EtherType has another version.
fn has_other_version(pass: &Pass) -> bool {
    let version = match pass.headers.scalar(Scalar::EtherType) {
        0x0800 => 4,
        0x86dd => 6,
        _ => return false,
    };
    let at = pass.headers.offset(h::ETHER_TYPE).map(|at| at + 2);
    let first = at.and_then(|at| pass.bytes.get(at));
    first.is_some_and(|byte| byte >> 4 != version)
}

/// Whether `normal` looks up the same station that it learns from this packet.
fn learns_what_it_looks_for(pass: &Pass) -> bool {
    pass.walk.trace.kinds().any(|kind| match kind {
        StepKind::Station { station, .. } => learns(&pass.walk.effects, station),
        _ => false,
    })
}

fn learns(effects: &[Effect], wanted: Station) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::Learn { station, .. } => *station == wanted,
        effect => effect.lists().any(|nested| learns(nested, wanted)),
    })
}

/// Whether addresses of a fragment without a transport header are rewritten.
fn rewrites_later_fragment(pass: &Pass) -> bool {
    let is_later = pass.headers.scalar(Scalar::IpFragment) & 2 != 0;
    let addresses = [f::IP_SRC, f::IP_DST, f::IPV6_SRC, f::IPV6_DST];
    is_later && has_write(&pass.walk.effects, &addresses)
}

/// Whether an IP header with protocol 0 is rewritten.
fn rewrites_protocol_zero(pass: &Pass) -> bool {
    let is_ip = pass.headers.has(h::IPV4) || pass.headers.has(h::IPV6);
    let ip = [
        f::IP_SRC,
        f::IP_DST,
        f::IPV6_SRC,
        f::IPV6_DST,
        f::IPV6_LABEL,
        f::IP_DSCP,
        f::IP_ECN,
        f::IP_TTL,
    ];
    let is_zero = pass.headers.scalar(Scalar::IpProtocol) == 0;
    is_ip && is_zero && has_write(&pass.walk.effects, &ip)
}

/// Whether ARP is rewritten whose operation Open vSwitch parses as zero.
fn writes_odd_arp(pass: &Pass) -> bool {
    writes_arp(pass) && pass.headers.scalar(Scalar::ArpOperation) == 0
}

/// Whether RARP is rewritten; Open vSwitch changes only its flow key.
fn writes_rarp(pass: &Pass) -> bool {
    writes_arp(pass) && pass.headers.scalar(Scalar::EtherType) == 0x8035
}

fn writes_arp(pass: &Pass) -> bool {
    let arp = [f::ARP_OP, f::ARP_SPA, f::ARP_TPA, f::ARP_SHA, f::ARP_THA];
    pass.headers.has(h::ARP) && has_write(&pass.walk.effects, &arp)
}

fn has_write(effects: &[Effect], fields: &[FieldId]) -> bool {
    effects.iter().any(|effect| match effect {
        Effect::Set { field, .. } => fields.contains(field),
        Effect::DecTtl => fields.contains(&f::IP_TTL),
        effect => effect.lists().any(|nested| has_write(nested, fields)),
    })
}

/// The answer with tags as Open vSwitch's `normal` leaves them, and without drop eligible
/// bits.
///
/// A second tag of VLAN 0 and priority 0 is removed; a first one is removed with the second.
fn without_priority_tags(answer: &Answer) -> Answer {
    changed(&without_drop_eligible(answer), |bytes| {
        let is_zero = |at: usize| is_tag(bytes, at) && bytes[at + 2..at + 4] == [0, 0];
        if is_zero(12) {
            bytes.drain(12..if is_tag(bytes, 16) { 20 } else { 16 });
        } else if is_tag(bytes, 12) && is_zero(16) {
            bytes.drain(16..20);
        }
    })
}

/// The answer with bit 12 of all tags zero.
fn without_drop_eligible(answer: &Answer) -> Answer {
    changed(answer, |bytes| {
        let mut at = 12;
        while is_tag(bytes, at) {
            bytes[at + 2] &= !0x10;
            at += 4;
        }
    })
}

/// The answer with 0x05ff in place of every length in the position of the EtherType.
fn without_length(answer: &Answer) -> Answer {
    changed(&without_drop_eligible(answer), |bytes| {
        let mut at = 12;
        while is_tag(bytes, at) {
            at += 4;
        }
        if let Some([high @ 0..=5, low]) = bytes.get_mut(at..at + 2) {
            (*high, *low) = (0x05, 0xff);
        }
    })
}

fn is_tag(bytes: &[u8], at: usize) -> bool {
    matches!(
        bytes.get(at..at + 4),
        Some([0x81, 0x00, ..] | [0x88, 0xa8, ..])
    )
}

fn changed(answer: &Answer, change: impl Fn(&mut Vec<u8>)) -> Answer {
    let mut answer = answer.clone();
    let sent = answer.sent.iter_mut().map(|(_, bytes)| bytes);
    let to_controller = answer.to_controller.iter_mut().map(|(_, bytes)| bytes);
    sent.chain(to_controller).for_each(change);
    answer
}
