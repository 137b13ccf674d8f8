//! Reads the text of a datapath flow (`odp_flow_from_string` and `odp_flow_key_to_flow` of
//! Open vSwitch).
//!
//! The text is first cut into attributes, level by level: an `encap` begins a level. Then the
//! attributes that packets of the flow's kind have become fields: the EtherType says which
//! header of layer 3 is read, the protocol which header of layer 4.
//!
//! 1. Levels are bounded, so that no text exhausts the stack.

use thalweg_packet::{PortId, standard as f};

use super::attribute::{
    ARP, ATTRIBUTES, Attribute, CONNECTION, CT_BITS, CT_TUPLE4, CT_TUPLE6, DISCOVERY, ERSPAN,
    ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_NSH, ETHERNET, FIELDLESS, FIELDLESS_OF_TUNNEL,
    GROUP_POLICY, GTPU, HASH, ICMP, ICMPV6, IPV4, IPV6, MARK, NSH, Part, SCTP, Spelling, TCP,
    TUNNEL, UDP, is_arp, is_mpls, is_neighbor_discovery, is_tag, ones,
};
use super::error::DatapathTextError;
use super::flow::DatapathFlow;
use super::options::{OptionBits, read_geneve};
use super::scan::{Masked, Scanner, flags, tcp_flags};

/// The names of a tunnel's flags, from bit 0.
const TUNNEL_FLAGS: [&str; 4] = ["oam", "df", "csum", "key"];

/// The deepest level (invariant 1): Open vSwitch's `MAX_ODP_NESTED`.
const LEVELS_MAX: usize = 32;

/// A port as a datapath flow names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatapathPort<'a> {
    /// The datapath's number of the port.
    Number(u32),
    /// The port's name.
    Name(&'a str),
}

/// Reads datapath flows.
pub struct FlowReader<'a> {
    ports: &'a dyn Fn(DatapathPort<'_>) -> Option<PortId>,
    masks: bool,
}

impl<'a> FlowReader<'a> {
    /// Reads keys, of which the members of attributes have no masks; `ports` finds the port
    /// that a flow names.
    pub fn new(ports: &'a dyn Fn(DatapathPort<'_>) -> Option<PortId>) -> FlowReader<'a> {
        FlowReader {
            ports,
            masks: false,
        }
    }

    /// Reads masks of members too, as in `ipv4(dst=10.0.0.0/255.0.0.0)`.
    pub fn with_masks(self) -> FlowReader<'a> {
        FlowReader {
            masks: true,
            ..self
        }
    }

    /// Reads a flow.
    ///
    /// # Errors
    /// If the text is malformed, contradicts itself, or says what no key can hold.
    pub fn read(&self, text: &str) -> Result<DatapathFlow, DatapathTextError> {
        let mut scanner = Scanner {
            rest: text,
            masks: self.masks,
        };
        let mut level = Level::default();
        loop {
            scanner.skip_delimiters();
            if scanner.rest.is_empty() {
                break;
            }
            // Open vSwitch names the whole attribute, not the place in it.
            let here = scanner.rest;
            skip_identifier(&mut scanner);
            self.attribute(&mut scanner, &mut level, 0)
                .map_err(|fault| fault.at(here))?;
        }
        let mut flow = DatapathFlow::default();
        apply(&level, self.masks, &mut flow)?;
        flow.options = level.options;
        flow.tunnel_flags = level.tunnel_flags;
        flow.key.derive();
        Ok(flow)
    }

    fn attribute<'t>(
        &self,
        scanner: &mut Scanner<'t>,
        level: &mut Level,
        depth: usize,
    ) -> Result<(), Fault> {
        let name = scanner.name('(').ok_or(Fault::Syntax)?;
        if let Some(attribute) = ATTRIBUTES.into_iter().find(|known| known.name == name) {
            let read = members_of(scanner, attribute)?;
            return level.add(attribute.name, read);
        }
        for attribute in [CT_TUPLE4, CT_TUPLE6] {
            if attribute.name == name {
                let read = members_of(scanner, &attribute)?;
                return level.add(attribute.name, read);
            }
        }
        let mut numbers = CONNECTION.iter().chain([&MARK, &HASH]);
        if let Some(&(name, field, width)) = numbers.find(|known| known.0 == name) {
            let part = Part::Field(field, width);
            let read = match field {
                f::CT_STATE => flags(inside(scanner)?, &CT_BITS).ok_or(Fault::Syntax)?,
                _ => single(scanner, true, width)?,
            };
            return level.add(name, vec![(part, read)]);
        }
        match name {
            "recirc_id" => {
                let read = single(scanner, false, 32)?;
                level.add("recirc_id", vec![(Part::Field(f::RECIRC_ID, 32), read)])
            }
            "eth_type" => {
                let read = single(scanner, true, 16)?;
                level.add("eth_type", vec![(Part::Field(f::ETH_TYPE, 16), read)])
            }
            "in_port" => {
                let read = self.port(scanner)?;
                level.add("in_port", vec![(Part::Field(f::IN_PORT, 32), read)])
            }
            "tcp_flags" => {
                let text = inside(scanner)?;
                let read = tcp_flags(text).ok_or(Fault::Syntax)?;
                level.add("tcp_flags", vec![(Part::Field(f::TCP_FLAGS, 12), read)])
            }
            "vlan" => {
                let read = tag(scanner)?;
                level.add("vlan", vec![(Part::Field(f::VLAN_TCI, 16), read)])
            }
            "packet_type" => {
                let read = packet_type(scanner)?;
                level.add("packet_type", vec![(Part::Field(f::PACKET_TYPE, 32), read)])
            }
            "mpls" => level.add_labels(labels(scanner)?),
            "tunnel" => tunnel(scanner, level),
            "encap" => self.level(scanner, level, depth + 1),
            _ => {
                let name = FIELDLESS.iter().find(|known| **known == name);
                let name = *name.ok_or(Fault::Syntax)?;
                let value = inside(scanner)?;
                refuse_unless_zero(name, value)?;
                level.add(name, Vec::new())
            }
        }
    }

    /// Reads the attributes of an `encap`.
    fn level(
        &self,
        scanner: &mut Scanner<'_>,
        outer: &mut Level,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth >= LEVELS_MAX {
            return Err(Fault::Syntax);
        }
        if outer.inner.is_some() {
            return Err(DatapathTextError::Duplicate("encap").into());
        }
        let mut level = Level::default();
        loop {
            scanner.skip_delimiters();
            if scanner.eat(")") {
                break;
            }
            self.attribute(scanner, &mut level, depth)?;
        }
        outer.inner = Some(Box::new(level));
        Ok(())
    }

    fn port(&self, scanner: &mut Scanner<'_>) -> Result<Masked, Fault> {
        let text = inside(scanner)?;
        let mut number = Scanner {
            rest: text,
            masks: true,
        };
        let port = match number.masked(Spelling::Decimal, 32) {
            Some((_, mask)) if mask != ones(32) && number.rest.is_empty() => {
                // A part of a number in the datapath is no part of a port's number here.
                return Err(unsupported("in_port", text));
            }
            Some((number_of_port, _)) if number.rest.is_empty() => {
                DatapathPort::Number(number_of_port as u32)
            }
            _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
                return Err(Fault::Syntax);
            }
            _ => DatapathPort::Name(text),
        };
        let found = (self.ports)(port);
        let PortId(found) = found.ok_or_else(|| DatapathTextError::UnknownPort(text.into()))?;
        Ok((found.into(), ones(32)))
    }
}

/// Why an attribute was refused: the place of a malformed one is known to the caller.
enum Fault {
    Syntax,
    Other(DatapathTextError),
}

impl Fault {
    fn at(self, text: &str) -> DatapathTextError {
        match self {
            Fault::Syntax => DatapathTextError::Syntax(text.into()),
            Fault::Other(error) => error,
        }
    }
}

impl From<DatapathTextError> for Fault {
    fn from(error: DatapathTextError) -> Fault {
        Fault::Other(error)
    }
}

fn unsupported(name: &str, value: &str) -> Fault {
    DatapathTextError::Unsupported {
        name: name.into(),
        value: value.into(),
    }
    .into()
}

/// The attributes of one level: those in front of a tag, or behind it.
#[derive(Default)]
struct Level {
    attributes: Vec<(&'static str, Vec<(Part, Masked)>)>,
    labels: Vec<(u32, u32)>,
    options: Vec<OptionBits>,
    tunnel_flags: u16,
    inner: Option<Box<Level>>,
}

impl Level {
    fn add(&mut self, name: &'static str, bits: Vec<(Part, Masked)>) -> Result<(), Fault> {
        if self.find(name).is_some() {
            return Err(DatapathTextError::Duplicate(name).into());
        }
        self.attributes.push((name, bits));
        Ok(())
    }

    fn add_labels(&mut self, labels: Vec<(u32, u32)>) -> Result<(), Fault> {
        self.labels = labels;
        self.add("mpls", Vec::new())
    }

    fn find(&self, name: &str) -> Option<&[(Part, Masked)]> {
        let found = self.attributes.iter().find(|known| known.0 == name);
        found.map(|found| &*found.1)
    }

    /// The EtherType that the level names, or that its attributes imply.
    fn ether_type(&self) -> Result<Masked, DatapathTextError> {
        if let Some(&[(_, (value, mask))]) = self.find("eth_type") {
            return match value < 0x0600 {
                true => Err(DatapathTextError::EtherType(value as u16)),
                false => Ok((value, mask)),
            };
        }
        let implied = [("ipv4", 0x0800), ("ipv6", 0x86dd), ("mpls", 0x8847)];
        let implied = implied
            .into_iter()
            .find(|(name, _)| self.find(name).is_some());
        let value = implied.map_or(f::ETHER_TYPE_NONE, |(_, value)| value);
        Ok((value.into(), 0))
    }

    /// Copies the bits of an attribute to the flow.
    fn copy(&self, name: &str, flow: &mut DatapathFlow) {
        for &(part, (value, mask)) in self.find(name).unwrap_or_default() {
            part.set(&mut flow.key, value);
            part.set(&mut flow.mask, mask);
        }
    }
}

/// Turns attributes into fields.
fn apply(top: &Level, masks: bool, flow: &mut DatapathFlow) -> Result<(), DatapathTextError> {
    let of_connection = CONNECTION
        .iter()
        .chain([&MARK, &HASH])
        .map(|(name, ..)| *name);
    let tuples = [CT_TUPLE4.name, CT_TUPLE6.name];
    let names = [
        "recirc_id",
        "tunnel",
        "in_port",
        "packet_type",
        ETHERNET.name,
    ];
    for name in names.into_iter().chain(of_connection).chain(tuples) {
        top.copy(name, flow);
    }
    let mut level = top;
    let mut ether_type = level.ether_type()?;
    let packet_type = flow.key.get(f::PACKET_TYPE);
    if packet_type != 0 && level.find("eth_type").is_none() {
        ether_type = (packet_type & 0xffff, 0);
    }
    for (place, field) in [f::VLAN_TCI, f::VLAN_TCI_INNER].into_iter().enumerate() {
        if !is_tag(ether_type.0 as u16) {
            break;
        }
        flow.tag_types[place] = ether_type.0 as u16;
        let tag = match level.find("vlan") {
            Some(&[(_, tag)]) => tag,
            // A flow does not show a tag of which nothing is compared.
            _ if masks && level.inner.is_some() => (f::VLAN_PRESENT.into(), 0),
            _ => (0, 0),
        };
        flow.key.set(field, tag.0);
        flow.mask.set(field, tag.1);
        let (is_there, bits) = (tag.0 & u128::from(f::VLAN_PRESENT) != 0, tag.0 as u16);
        if !is_there && bits != 0 {
            return Err(DatapathTextError::TagWithoutPresence(bits));
        }
        // A tag that is cut off, or has nothing behind it, is the end of the packet.
        let Some(inner) = level.inner.as_deref().filter(|_| is_there) else {
            return Ok(());
        };
        level = inner;
        ether_type = level.ether_type()?;
    }
    flow.key.set(f::ETH_TYPE, ether_type.0);
    flow.mask.set(f::ETH_TYPE, ether_type.1);
    apply_network(level, flow)
}

fn apply_network(level: &Level, flow: &mut DatapathFlow) -> Result<(), DatapathTextError> {
    let ether_type = flow.key.short(f::ETH_TYPE);
    match ether_type {
        ETHER_TYPE_IPV4 => level.copy(IPV4.name, flow),
        ETHER_TYPE_IPV6 => level.copy(IPV6.name, flow),
        ETHER_TYPE_NSH => level.copy(NSH.name, flow),
        _ if is_arp(ether_type) => level.copy(ARP.name, flow),
        _ if is_mpls(ether_type) => return apply_labels(level, flow),
        _ => {}
    }
    let operation = flow.key.short(f::ARP_OP);
    if operation > 255 {
        return Err(DatapathTextError::ArpOperation(operation));
    }
    let is_ip = matches!(ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6);
    if !is_ip || flow.key.is_later_fragment() {
        return Ok(());
    }
    match (flow.key.short(f::IP_PROTO), ether_type) {
        (6, _) => {
            level.copy(TCP.name, flow);
            level.copy("tcp_flags", flow);
        }
        (17, _) => level.copy(UDP.name, flow),
        (132, _) => level.copy(SCTP.name, flow),
        (1, ETHER_TYPE_IPV4) => level.copy(ICMP.name, flow),
        (58, ETHER_TYPE_IPV6) => {
            level.copy(ICMPV6.name, flow);
            if is_neighbor_discovery(&flow.key) {
                level.copy(DISCOVERY.name, flow);
            }
        }
        _ => {}
    }
    Ok(())
}

fn apply_labels(level: &Level, flow: &mut DatapathFlow) -> Result<(), DatapathTextError> {
    let (mut entries, mut masks) = ([0; 3], [0; 3]);
    for (place, label) in level.labels.iter().enumerate() {
        (entries[place], masks[place]) = *label;
        let is_bottom = entries[place] & 1 << 8 != 0;
        if is_bottom && place + 1 < level.labels.len() {
            return Err(DatapathTextError::LabelBehindBottom);
        }
    }
    flow.key.set_labels(entries);
    flow.mask.set_labels(masks);
    Ok(())
}

/// Skips `ufid:12345678-...`, of a flow as `dpctl/dump-flows -m` prints it.
fn skip_identifier(scanner: &mut Scanner<'_>) {
    if let Some(rest) = scanner.rest.strip_prefix("ufid:") {
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        let end = rest.bytes().position(|byte| !is_part(byte));
        scanner.rest = &rest[end.unwrap_or(rest.len())..];
        scanner.skip_delimiters();
    }
}

/// Takes the text up to the parenthesis that closes the attribute, and that parenthesis.
fn inside<'t>(scanner: &mut Scanner<'t>) -> Result<&'t str, Fault> {
    let text = scanner.until(|byte| byte == b')').ok_or(Fault::Syntax)?;
    scanner.eat(")");
    Ok(text)
}

/// Takes the only value of an attribute, and the parenthesis behind it. Such a value may have a
/// mask where those of members may not; but `recirc_id` is compared as a whole.
fn single(scanner: &mut Scanner<'_>, masks: bool, width_bits: u16) -> Result<Masked, Fault> {
    let mut value = Scanner { masks, ..*scanner };
    let read = value.masked(Spelling::Decimal, width_bits);
    scanner.rest = value.rest;
    match read.filter(|_| scanner.eat(")")) {
        Some(read) => Ok(read),
        None => Err(Fault::Syntax),
    }
}

/// Reads the members of an attribute.
fn members_of(
    scanner: &mut Scanner<'_>,
    attribute: &Attribute,
) -> Result<Vec<(Part, Masked)>, Fault> {
    let mut bits = Vec::new();
    members(scanner, |scanner, name| {
        let member = attribute.members.iter().find(|member| member.name == name);
        let member = member.ok_or(Fault::Syntax)?;
        let width = member.part.width_bits();
        let read = scanner
            .masked(member.spelling, width)
            .ok_or(Fault::Syntax)?;
        bits.push((member.part, read));
        Ok(())
    })?;
    Ok(bits)
}

/// Takes the members `name=...` of an attribute, and the parenthesis behind them.
fn members<'t>(
    scanner: &mut Scanner<'t>,
    mut take: impl FnMut(&mut Scanner<'t>, &str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if scanner.eat(")") {
        return Ok(());
    }
    loop {
        let name = scanner.name('=').ok_or(Fault::Syntax)?;
        take(scanner, name)?;
        if scanner.eat(")") {
            return Ok(());
        }
        if !scanner.eat(",") {
            return Err(Fault::Syntax);
        }
    }
}

/// Takes the members of a tag as one number.
fn tag(scanner: &mut Scanner<'_>) -> Result<Masked, Fault> {
    let present = u128::from(f::VLAN_PRESENT);
    let (mut value, mut mask) = (present, present);
    members(scanner, |scanner, name| {
        let (width, shift) = match name {
            "vid" => (12, 0),
            "pcp" => (3, 13),
            "cfi" => (1, 12),
            _ => return Err(Fault::Syntax),
        };
        let read = scanner
            .masked(Spelling::Decimal, width)
            .ok_or(Fault::Syntax)?;
        let place = ones(width) << shift;
        value = value & !place | read.0 << shift;
        mask = mask & !place | read.1 << shift;
        Ok(())
    })?;
    Ok((value, mask))
}

/// Takes the namespace and the number of a packet's type.
fn packet_type(scanner: &mut Scanner<'_>) -> Result<Masked, Fault> {
    let (mut value, mut mask) = (0, 0);
    members(scanner, |scanner, name| {
        let shift = match name {
            "ns" => 16,
            "id" => 0,
            _ => return Err(Fault::Syntax),
        };
        let read = scanner.masked(Spelling::Decimal, 16).ok_or(Fault::Syntax)?;
        value |= read.0 << shift;
        mask |= read.1 << shift;
        Ok(())
    })?;
    Ok((value, mask))
}

/// Takes label stack entries; a member that occurs again begins the next entry.
fn labels(scanner: &mut Scanner<'_>) -> Result<Vec<(u32, u32)>, Fault> {
    let mut entries = vec![(0, 0)];
    let mut seen = 0_u32;
    members(scanner, |scanner, name| {
        let (width, shift) = match name {
            "label" => (20, 12),
            "tc" => (3, 9),
            "ttl" => (8, 0),
            "bos" => (1, 8),
            _ => return Err(Fault::Syntax),
        };
        let read = scanner
            .masked(Spelling::Decimal, width)
            .ok_or(Fault::Syntax)?;
        if seen & 1 << shift != 0 {
            seen = 0;
            entries.push((0, 0));
        }
        seen |= 1 << shift;
        let (value, mask) = entries.last_mut().expect("there is at least one");
        *value |= (read.0 as u32) << shift;
        *mask |= (read.1 as u32) << shift;
        Ok(())
    })?;
    match entries.len() {
        1..=3 => Ok(entries),
        _ => Err(Fault::Syntax),
    }
}

/// Takes the members of a tunnel.
fn tunnel(scanner: &mut Scanner<'_>, level: &mut Level) -> Result<(), Fault> {
    let mut bits = Vec::new();
    loop {
        if scanner.eat(")") {
            return level.add("tunnel", bits);
        }
        scanner.eat(",");
        let before = *scanner;
        if let Some(name) = scanner.name('(') {
            match name {
                "geneve" => {
                    let read = read_geneve(inside(scanner)?).ok_or(Fault::Syntax)?;
                    level.options.extend(read);
                }
                "erspan" => bits.extend(members_of(scanner, &ERSPAN)?),
                "gtpu" => bits.extend(members_of(scanner, &GTPU)?),
                "vxlan" => bits.extend(group_policy(scanner)?),
                "flags" => level.tunnel_flags = tunnel_flags(inside(scanner)?, &mut bits)?,
                _ => return Err(Fault::Syntax),
            }
            continue;
        }
        *scanner = before;
        let name = scanner.name('=').ok_or(Fault::Syntax)?;
        let member = TUNNEL.members.iter().find(|member| member.name == name);
        if let Some(member) = member {
            let read = scanner.masked(member.spelling, member.part.width_bits());
            bits.push((member.part, read.ok_or(Fault::Syntax)?));
        } else if FIELDLESS_OF_TUNNEL.contains(&name) {
            let value = scanner.until(|byte| matches!(byte, b',' | b')'));
            refuse_unless_zero(&format!("tunnel.{name}"), value.ok_or(Fault::Syntax)?)?;
        } else {
            return Err(Fault::Syntax);
        }
        if !scanner.rest.starts_with([',', ')']) {
            return Err(Fault::Syntax);
        }
    }
}

/// Takes the inside of `vxlan(gbp(...))`.
fn group_policy(scanner: &mut Scanner<'_>) -> Result<Vec<(Part, Masked)>, Fault> {
    if scanner.eat(")") {
        return Ok(Vec::new());
    }
    match scanner.name('(') {
        Some(name) if name == GROUP_POLICY.name => {}
        _ => return Err(Fault::Syntax),
    }
    let read = members_of(scanner, &GROUP_POLICY)?;
    match scanner.eat(")") {
        true => Ok(read),
        false => Err(Fault::Syntax),
    }
}

/// Reads the flags of a tunnel. Rules can ask for one of them.
fn tunnel_flags(text: &str, bits: &mut Vec<(Part, Masked)>) -> Result<u16, Fault> {
    if text.is_empty() {
        return Ok(0);
    }
    let (value, mask) = flags(text, &TUNNEL_FLAGS).ok_or(Fault::Syntax)?;
    bits.push((Part::Field(f::TUN_FLAGS, 1), (value & 1, mask & 1)));
    Ok(value as u16)
}

/// Refuses an attribute without a field, unless all that it says is that it is zero.
fn refuse_unless_zero(name: &str, value: &str) -> Result<(), Fault> {
    let is_zero = |part: &str| {
        let value = part.rsplit('=').next().unwrap_or_default();
        let value = value.split('/').next().unwrap_or_default();
        let digits = value.trim_start_matches("0x");
        // A packet without the flags, as all are: `-trk`.
        let is_unset = value.starts_with('-') && !value.contains('+');
        is_unset
            || !value.is_empty()
                && digits
                    .bytes()
                    .all(|byte| matches!(byte, b'0' | b':' | b'.'))
    };
    match value.is_empty() || value.split(',').all(is_zero) {
        true => Ok(()),
        false => Err(unsupported(name, value)),
    }
}
