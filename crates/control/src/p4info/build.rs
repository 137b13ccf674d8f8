//! Builds the [`Catalog`] from P4Info messages, with every check that needs no program.

use std::collections::{BTreeMap, BTreeSet};

use crate::p4info::{
    Action, Catalog, Counter, Digest, Field, MAX_WIDTH, Marker, MatchKind, Meter, PacketHeader,
    Parameter, Profile, Register, Scope, Shape, Table, ValueSet,
};
use crate::proto::p4::config::v1 as info;
use crate::proto::p4::config::v1::p4_ids::Prefix;

/// P4Info that contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("P4Info, {place}: {what}; compile the program again and take what p4c writes")]
pub struct InfoError {
    place: String,
    what: String,
}

type Result<T> = std::result::Result<T, InfoError>;

/// Maximum objects; no real program has more.
const MAX_OBJECTS: usize = 1 << 16;
/// Maximum entries; no memory has room for more.
const MAX_SIZE: u64 = 1 << 32;

impl Catalog {
    /// Checks and indexes P4Info.
    ///
    /// # Errors
    /// Fails if it contradicts itself, or contains something unsupported.
    pub fn new(p4info: &info::P4Info) -> Result<Catalog> {
        Builder {
            seen: BTreeSet::new(),
            catalog: Catalog::default(),
            types: p4info.type_info.clone().unwrap_or_default(),
        }
        .build(p4info)
    }
}

struct Builder {
    seen: BTreeSet<u32>,
    catalog: Catalog,
    types: info::P4TypeInfo,
}

fn error(place: impl Into<String>, what: impl Into<String>) -> InfoError {
    InfoError {
        place: place.into(),
        what: what.into(),
    }
}

impl Builder {
    fn build(mut self, p4info: &info::P4Info) -> Result<Catalog> {
        self.actions(p4info)?;
        self.profiles(p4info)?;
        self.counters(p4info)?;
        self.meters(p4info)?;
        self.tables(p4info)?;
        self.registers_and_digests(p4info)?;
        self.value_sets(p4info)?;
        self.packet_headers(p4info)?;
        self.check_references()?;
        Ok(self.catalog)
    }

    /// The id and name of an object; establishes invariant 1 of the catalog.
    fn preamble(
        &mut self,
        kind: &str,
        prefix: Prefix,
        preamble: Option<&info::Preamble>,
    ) -> Result<(u32, String)> {
        let Some(preamble) = preamble else {
            return Err(error(kind, "an object has no preamble"));
        };
        let place = format!("{kind} `{}`", preamble.name);
        if preamble.id >> 24 != prefix as u32 {
            let what = format!(
                "its number {:#010x} does not begin with {:#04x}",
                preamble.id, prefix as u32
            );
            return Err(error(place, what));
        }
        if self.seen.len() >= MAX_OBJECTS {
            return Err(error(place, format!("more than {MAX_OBJECTS} objects")));
        }
        if !self.seen.insert(preamble.id) {
            let what = format!("another object has its number {:#010x}", preamble.id);
            return Err(error(place, what));
        }
        Ok((preamble.id, preamble.name.clone()))
    }

    fn actions(&mut self, p4info: &info::P4Info) -> Result<()> {
        for action in &p4info.actions {
            let (id, name) = self.preamble("action", Prefix::Action, action.preamble.as_ref())?;
            let place = format!("action `{name}`");
            let mut parameters: Vec<Parameter> = Vec::with_capacity(action.params.len());
            for param in &action.params {
                let width = self.width(param.bitwidth, param.type_name.as_ref());
                let parameter = Parameter {
                    id: param.id,
                    name: param.name.clone(),
                    width: width.map_err(|what| error(format!("{place}.{}", param.name), what))?,
                };
                let is_known = parameters.iter().any(|other| other.id == parameter.id);
                if is_known || parameter.id == 0 {
                    let what = format!("parameter number {} is zero or twice", parameter.id);
                    return Err(error(place, what));
                }
                parameters.push(parameter);
            }
            let action = Action {
                id,
                name,
                parameters,
            };
            self.catalog.actions.insert(id, action);
        }
        Ok(())
    }

    /// A width in bits; for a translated type, the controller's width.
    fn width(
        &self,
        width: i32,
        named: Option<&info::P4NamedType>,
    ) -> std::result::Result<u32, String> {
        use info::p4_new_type_spec::Representation;
        use info::p4_new_type_translation::SdnType;
        let new_type = named.and_then(|named| self.types.new_types.get(&named.name));
        let mut width = width;
        if let Some(Representation::TranslatedType(translation)) =
            new_type.and_then(|new_type| new_type.representation.as_ref())
        {
            match translation.sdn_type {
                Some(SdnType::SdnBitwidth(bits)) => width = bits,
                _ => return Err("its type is translated to strings, which is not supported".into()),
            }
        }
        match u32::try_from(width) {
            Ok(width) if (1..=MAX_WIDTH).contains(&width) => Ok(width),
            _ => Err(format!("a width of {width} bits is not in 1..={MAX_WIDTH}")),
        }
    }

    fn fields(&self, place: &str, fields: &[info::MatchField]) -> Result<Vec<Field>> {
        use info::match_field::{Match, MatchType};
        let mut found: Vec<Field> = Vec::with_capacity(fields.len());
        for field in fields {
            let place = format!("{place}, field `{}`", field.name);
            let kind = match field.r#match {
                Some(Match::MatchType(kind)) => MatchType::try_from(kind).ok(),
                _ => None,
            };
            let kind = match kind {
                Some(MatchType::Exact) => MatchKind::Exact,
                Some(MatchType::Lpm) => MatchKind::Lpm,
                Some(MatchType::Ternary) => MatchKind::Ternary,
                Some(MatchType::Range) => MatchKind::Range,
                Some(MatchType::Optional) => MatchKind::Optional,
                Some(MatchType::Unspecified) | None => {
                    return Err(error(place, "its kind of match is not a standard one"));
                }
            };
            // The compiler gives `error` no width ("Treat error type as string"), and refuses
            // every other type without one.
            let is_error = field.bitwidth == 0 && field.type_name.is_none();
            let width = match is_error {
                true => MAX_WIDTH,
                false => self
                    .width(field.bitwidth, field.type_name.as_ref())
                    .map_err(|what| error(&place, what))?,
            };
            if field.id == 0 || found.iter().any(|other| other.id == field.id) {
                return Err(error(
                    place,
                    format!("number {} is zero or twice", field.id),
                ));
            }
            found.push(Field {
                id: field.id,
                name: field.name.clone(),
                width,
                kind,
                is_error,
            });
        }
        Ok(found)
    }

    fn tables(&mut self, p4info: &info::P4Info) -> Result<()> {
        for table in &p4info.tables {
            let (id, name) = self.preamble("table", Prefix::Table, table.preamble.as_ref())?;
            let place = format!("table `{name}`");
            let fields = self.fields(&place, &table.match_fields)?;
            let scopes = table.action_refs.iter().map(|reference| {
                let scope = Scope::of(reference).ok_or_else(|| {
                    let what = format!("the scope {} of an action is unknown", reference.scope);
                    error(&place, what)
                });
                Ok((reference.id, scope?))
            });
            let actions: BTreeMap<u32, Scope> = scopes.collect::<Result<_>>()?;
            let direct = |is_known: &dyn Fn(&u32) -> bool| {
                let mut ids = table.direct_resource_ids.iter();
                ids.find(|id| is_known(id)).copied()
            };
            let direct_counter = direct(&|id| self.catalog.direct_counters.contains_key(id));
            let direct_meter = direct(&|id| self.catalog.direct_meters.contains_key(id));
            let known = usize::from(direct_counter.is_some()) + usize::from(direct_meter.is_some());
            if known < table.direct_resource_ids.len() {
                let what = "it has a direct resource that is no direct counter or meter, or two";
                return Err(error(place, what));
            }
            let has_priorities = fields.iter().any(|field| {
                let kind = field.kind;
                matches!(
                    kind,
                    MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
                )
            });
            let table = Table {
                id,
                has_const_default: table.const_default_action_id != 0,
                profile: (table.implementation_id != 0).then_some(table.implementation_id),
                direct_counter,
                direct_meter,
                size: size_of(&place, table.size)?,
                has_idle_timeout: table.idle_timeout_behavior()
                    == info::table::IdleTimeoutBehavior::NotifyControl,
                is_const: table.is_const_table,
                has_priorities,
                name,
                fields,
                actions,
            };
            self.catalog.tables.insert(id, table);
        }
        Ok(())
    }

    fn profiles(&mut self, p4info: &info::P4Info) -> Result<()> {
        use info::action_profile::SelectorSizeSemantics;
        for profile in &p4info.action_profiles {
            let preamble = profile.preamble.as_ref();
            let (id, name) = self.preamble("action profile", Prefix::ActionProfile, preamble)?;
            let place = format!("action profile `{name}`");
            let size_by_members = match &profile.selector_size_semantics {
                Some(SelectorSizeSemantics::SumOfMembers(sum)) => Some(unsigned(
                    &place,
                    "max_member_weight",
                    sum.max_member_weight,
                )?),
                _ => None,
            };
            let profile = Profile {
                id,
                tables: profile.table_ids.clone(),
                has_selector: profile.with_selector,
                size: size_of(&place, profile.size)?,
                max_group_size: unsigned(&place, "max_group_size", profile.max_group_size)?,
                has_no_weights: profile.weights_disallowed,
                size_by_members,
                name,
            };
            self.catalog.profiles.insert(id, profile);
        }
        Ok(())
    }

    fn counters(&mut self, p4info: &info::P4Info) -> Result<()> {
        use info::counter_spec::Unit;
        let counts = |spec: Option<&info::CounterSpec>| {
            let unit = spec.map_or(Unit::Both, info::CounterSpec::unit);
            (unit != Unit::Packets, unit != Unit::Bytes)
        };
        for counter in &p4info.counters {
            let preamble = counter.preamble.as_ref();
            let (id, name) = self.preamble("counter", Prefix::Counter, preamble)?;
            let (has_bytes, has_packets) = counts(counter.spec.as_ref());
            let counter = Counter {
                id,
                size: size_of(&format!("counter `{name}`"), counter.size)?,
                name,
                has_bytes,
                has_packets,
                table: None,
            };
            self.catalog.counters.insert(id, counter);
        }
        for counter in &p4info.direct_counters {
            let preamble = counter.preamble.as_ref();
            let (id, name) = self.preamble("direct counter", Prefix::DirectCounter, preamble)?;
            let (has_bytes, has_packets) = counts(counter.spec.as_ref());
            let counter = Counter {
                id,
                name,
                size: 0,
                has_bytes,
                has_packets,
                table: Some(counter.direct_table_id),
            };
            self.catalog.direct_counters.insert(id, counter);
        }
        Ok(())
    }

    fn meters(&mut self, p4info: &info::P4Info) -> Result<()> {
        use info::meter_spec::{Type, Unit};
        let spec = |spec: Option<&info::MeterSpec>| {
            let spec = spec.copied().unwrap_or_default();
            let marker = match spec.r#type() {
                Type::TwoRateThreeColor => Marker::TwoRates,
                Type::SingleRateThreeColor => Marker::OneRate,
                Type::SingleRateTwoColor => Marker::TwoColours,
            };
            (spec.unit() != Unit::Packets, marker)
        };
        for meter in &p4info.meters {
            let (id, name) = self.preamble("meter", Prefix::Meter, meter.preamble.as_ref())?;
            let (is_in_bytes, marker) = spec(meter.spec.as_ref());
            let meter = Meter {
                id,
                size: size_of(&format!("meter `{name}`"), meter.size)?,
                name,
                is_in_bytes,
                marker,
                table: None,
            };
            self.catalog.meters.insert(id, meter);
        }
        for meter in &p4info.direct_meters {
            let preamble = meter.preamble.as_ref();
            let (id, name) = self.preamble("direct meter", Prefix::DirectMeter, preamble)?;
            let (is_in_bytes, marker) = spec(meter.spec.as_ref());
            let meter = Meter {
                id,
                name,
                size: 0,
                is_in_bytes,
                marker,
                table: Some(meter.direct_table_id),
            };
            self.catalog.direct_meters.insert(id, meter);
        }
        Ok(())
    }

    fn registers_and_digests(&mut self, p4info: &info::P4Info) -> Result<()> {
        for register in &p4info.registers {
            let preamble = register.preamble.as_ref();
            let (id, name) = self.preamble("register", Prefix::Register, preamble)?;
            let place = format!("register `{name}`");
            let shape = Shape::of(register.type_spec.as_ref(), &self.types);
            let register = Register {
                id,
                size: size_of(&place, i64::from(register.size))?,
                shape: shape.map_err(|what| error(place, what))?,
                name,
            };
            self.catalog.registers.insert(id, register);
        }
        for digest in &p4info.digests {
            let (id, name) = self.preamble("digest", Prefix::Digest, digest.preamble.as_ref())?;
            let shape = Shape::of(digest.type_spec.as_ref(), &self.types);
            let shape = shape.map_err(|what| error(format!("digest `{name}`"), what))?;
            self.catalog.digests.insert(id, Digest { id, name, shape });
        }
        Ok(())
    }

    fn value_sets(&mut self, p4info: &info::P4Info) -> Result<()> {
        for set in &p4info.value_sets {
            let (id, name) = self.preamble("value set", Prefix::ValueSet, set.preamble.as_ref())?;
            let place = format!("value set `{name}`");
            let set = ValueSet {
                id,
                fields: self.fields(&place, &set.r#match)?,
                size: size_of(&place, i64::from(set.size))?,
                name,
            };
            self.catalog.value_sets.insert(id, set);
        }
        Ok(())
    }

    fn packet_headers(&mut self, p4info: &info::P4Info) -> Result<()> {
        for header in &p4info.controller_packet_metadata {
            // Its id has no meaning, and older compilers wrote any number.
            let name = header
                .preamble
                .as_ref()
                .map_or("", |preamble| &preamble.name);
            let place = format!("controller header `{name}`");
            let mut fields: Vec<Parameter> = Vec::with_capacity(header.metadata.len());
            for field in &header.metadata {
                let width = self.width(field.bitwidth, field.type_name.as_ref());
                let width = width.map_err(|what| error(format!("{place}.{}", field.name), what))?;
                if field.id == 0 || fields.iter().any(|other| other.id == field.id) {
                    let what = format!("field number {} is zero or twice", field.id);
                    return Err(error(place, what));
                }
                fields.push(Parameter {
                    id: field.id,
                    name: field.name.clone(),
                    width,
                });
            }
            let slot = match name {
                "packet_in" => &mut self.catalog.packet_in,
                "packet_out" => &mut self.catalog.packet_out,
                _ => return Err(error(place, "it is neither `packet_in` nor `packet_out`")),
            };
            if slot.replace(PacketHeader { fields }).is_some() {
                return Err(error(place, "there is another of its name"));
            }
        }
        Ok(())
    }

    /// Establishes invariant 2 of the catalog.
    fn check_references(&self) -> Result<()> {
        let catalog = &self.catalog;
        for table in catalog.tables.values() {
            let place = format!("table `{}`", table.name);
            for id in table.actions.keys() {
                if !catalog.actions.contains_key(id) {
                    return Err(error(place, format!("there is no action {id:#010x}")));
                }
            }
            if let Some(id) = table.profile {
                let profile = catalog.profiles.get(&id);
                if !profile.is_some_and(|profile| profile.tables.contains(&table.id)) {
                    let what = format!("action profile {id:#010x} does not exist or lacks it");
                    return Err(error(place, what));
                }
            }
        }
        for profile in catalog.profiles.values() {
            let place = format!("action profile `{}`", profile.name);
            let known = |id: &&u32| !catalog.tables.contains_key(*id);
            if let Some(id) = profile.tables.iter().find(known) {
                return Err(error(place, format!("there is no table {id:#010x}")));
            }
        }
        let counters = catalog.direct_counters.values();
        let counters = counters.map(|counter| (&counter.name, counter.table));
        let meters = catalog.direct_meters.values();
        let meters = meters.map(|meter| (&meter.name, meter.table));
        for (name, table) in counters.chain(meters) {
            let id = table.unwrap_or_default();
            if !catalog.tables.contains_key(&id) {
                let what = format!("there is no table {id:#010x}");
                return Err(error(format!("direct resource `{name}`"), what));
            }
        }
        Ok(())
    }
}

fn size_of(place: &str, size: i64) -> Result<u64> {
    match u64::try_from(size) {
        Ok(size) if size <= MAX_SIZE => Ok(size),
        _ => Err(error(
            place,
            format!("a size of {size} is not in 0..={MAX_SIZE}"),
        )),
    }
}

fn unsigned(place: &str, what: &str, number: i32) -> Result<u32> {
    u32::try_from(number).map_err(|_| error(place, format!("{what} is {number}, below 0")))
}
