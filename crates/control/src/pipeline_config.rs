//! Selects the running program: `SetForwardingPipelineConfig` and
//! `GetForwardingPipelineConfig`.
//!
//! ```text
//!   VERIFY                 nothing changes
//!   VERIFY_AND_SAVE        the program is saved; reads and writes are about it from now on
//!   COMMIT                 packets meet the saved program, with what was written to it
//!   VERIFY_AND_COMMIT      packets meet the program, empty
//!   RECONCILE_AND_COMMIT   packets meet the program, with all that is in the running one
//! ```
//!
//! A saved program is a separate data plane that no packet sees yet, so its writes need no
//! second check when it is committed.

use std::sync::Arc;

use thalweg_packet::Instant;

use crate::arbitration::RoleName;
use crate::batch;
use crate::device::Device;
use crate::p4info::{Catalog, Counter};
use crate::pipeline::{Pipeline, no_pipeline};
use crate::problem::{Code, Failure, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::entity::Entity as Kind;
use crate::proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use crate::proto::p4::v1::update::Type;
use crate::proto::p4::v1::write_request::Atomicity;
use crate::store::{Live, Store, owned};
use crate::target::{Side, Target};
use crate::value::Value;

impl<T: Target> Device<T> {
    /// Handles `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// Fails with the standard's code; then nothing has changed.
    pub fn handle_set_pipeline(
        &mut self,
        request: &p4::SetForwardingPipelineConfigRequest,
        now: Instant,
    ) -> Result<(), Failure> {
        self.check_device(request.device_id)?;
        #[allow(deprecated)]
        let role = RoleName::new(&request.role, request.role_id);
        self.arbitration
            .check_primary(&role, request.election_id.as_ref())?;
        let config = request.config.as_ref();
        match request.action() {
            Action::Unspecified => {
                return Err(Problem::invalid("the action is not set").into());
            }
            Action::Verify => {
                let (catalog, config) = parse(config)?;
                self.target.verify(&catalog, &config.p4_device_config)?;
            }
            Action::VerifyAndSave => {
                let pipeline = self.load(config)?;
                self.saved = Some(pipeline);
            }
            Action::VerifyAndCommit => {
                let pipeline = self.load(config)?;
                self.start_running(pipeline, now);
            }
            Action::Commit => {
                if config.is_some() {
                    let text = "a commit takes what was saved; leave the configuration out";
                    return Err(Problem::invalid(text).into());
                }
                let Some(pipeline) = self.saved.take() else {
                    return Err(Problem::missing("nothing is saved; save it first").into());
                };
                self.start_running(pipeline, now);
            }
            Action::ReconcileAndCommit => self.reconcile(config, now)?,
        }
        Ok(())
    }

    /// Starts a program without a controller: the one that a switch starts with.
    ///
    /// # Errors
    /// Fails if the program cannot run.
    pub fn start_with(
        &mut self,
        config: &p4::ForwardingPipelineConfig,
        now: Instant,
    ) -> Result<(), Problem> {
        let pipeline = self.load(Some(config))?;
        self.start_running(pipeline, now);
        Ok(())
    }

    /// Writes without a controller: the entries that a switch starts with.
    ///
    /// # Errors
    /// Fails if an update is refused; then none was done.
    pub fn write_at_start(&mut self, updates: &[p4::Update], now: Instant) -> Result<(), Failure> {
        let pipeline = self.running.as_mut().ok_or_else(no_pipeline)?;
        let atomicity = Atomicity::DataplaneAtomic;
        let (store, target) = (&mut pipeline.store, &mut self.target);
        batch::write(store, target, Side::Running, updates, atomicity)?;
        self.follow_writes(now);
        Ok(())
    }

    fn load(&mut self, config: Option<&p4::ForwardingPipelineConfig>) -> Result<Pipeline, Problem> {
        let (catalog, config) = parse(config)?;
        let initial = self.target.load(&catalog, &config.p4_device_config)?;
        Ok(Pipeline {
            store: Store::new(Arc::new(catalog), initial),
            config: owned(config),
        })
    }

    fn reconcile(
        &mut self,
        config: Option<&p4::ForwardingPipelineConfig>,
        now: Instant,
    ) -> Result<(), Problem> {
        if self.saved.is_some() {
            return Err(Problem::new(
                Code::FailedPrecondition,
                "another configuration is saved; commit it first",
            ));
        }
        let mut pipeline = self.load(config)?;
        let moved = self.move_to(&mut pipeline);
        if let Err(problem) = moved {
            self.target.discard();
            return Err(problem);
        }
        self.start_running(pipeline, now);
        Ok(())
    }

    /// Writes everything that the running program has to a loaded one.
    fn move_to(&mut self, pipeline: &mut Pipeline) -> Result<(), Problem> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let live = Live {
            target: &mut self.target,
            side: Side::Running,
        };
        let found = running
            .store
            .read_all(live, everything(running.store.catalog()))?;
        // First deletes the new program's own entries that the running one no longer has.
        let live = Live {
            target: &mut self.target,
            side: Side::Saved,
        };
        let entries = Kind::TableEntry(p4::TableEntry::default());
        let brought = pipeline.store.read_all(live, [entries])?;
        let brought = brought
            .into_iter()
            .filter_map(|entity| match entity.entity? {
                Kind::TableEntry(entry) if entry.is_const || running.store.has_entry(&entry) => {
                    None
                }
                entity => Some(update(Type::Delete, entity)),
            });
        let brought: Vec<_> = brought.collect();
        let entities = found.into_iter().filter_map(|entity| entity.entity);
        let kept = entities.flat_map(|entity| updates_of(entity, &running.store, &pipeline.store));
        let updates: Vec<p4::Update> = brought.into_iter().chain(kept).collect();
        let written = batch::write(
            &mut pipeline.store,
            &mut self.target,
            Side::Saved,
            &updates,
            Atomicity::RollbackOnError,
        );
        match written {
            Ok(()) => Ok(()),
            Err(Failure::Call(problem)) => Err(problem),
            Err(Failure::Parts(verdicts)) => {
                let failed = verdicts.into_iter().filter_map(Result::err);
                let mut failed = failed.filter(|problem| problem.code != Code::Aborted);
                let first = failed
                    .next()
                    .map_or(String::new(), |problem| problem.message);
                Err(Problem::invalid(format!(
                    "the new program cannot have what is in the running one: {first}"
                )))
            }
        }
    }

    /// Handles `GetForwardingPipelineConfig` for the pipeline that reads and writes concern.
    ///
    /// # Errors
    /// Fails if the request names another device, or an unknown part.
    pub fn handle_get_pipeline(
        &self,
        request: &p4::GetForwardingPipelineConfigRequest,
    ) -> Result<p4::GetForwardingPipelineConfigResponse, Failure> {
        self.check_device(request.device_id)?;
        let Some(pipeline) = self.saved.as_ref().or(self.running.as_ref()) else {
            return Ok(p4::GetForwardingPipelineConfigResponse::default());
        };
        let all = &pipeline.config;
        let kind = ResponseType::try_from(request.response_type).map_err(|_| {
            let text = format!("the response type {} is unknown", request.response_type);
            Problem::invalid(text)
        })?;
        let has_p4info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
        let has_program = matches!(
            kind,
            ResponseType::All | ResponseType::DeviceConfigAndCookie
        );
        let program = all.p4_device_config.clone();
        Ok(p4::GetForwardingPipelineConfigResponse {
            config: Some(p4::ForwardingPipelineConfig {
                p4info: all.p4info.clone().filter(|_| has_p4info),
                p4_device_config: if has_program {
                    program
                } else {
                    Default::default()
                },
                cookie: all.cookie,
            }),
        })
    }
}

fn parse(
    config: Option<&p4::ForwardingPipelineConfig>,
) -> Result<(Catalog, &p4::ForwardingPipelineConfig), Problem> {
    let Some(config) = config else {
        return Err(Problem::invalid("there is no configuration; give one"));
    };
    let Some(p4info) = &config.p4info else {
        return Err(Problem::invalid("the configuration has no P4Info"));
    };
    let catalog = Catalog::new(p4info).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok((catalog, config))
}

/// The reads of everything, in an order in which it can be written again.
fn everything(catalog: &Catalog) -> Vec<Kind> {
    use p4::packet_replication_engine_entry::Type as Replication;
    let replication = |kind| {
        let entry = p4::PacketReplicationEngineEntry { r#type: Some(kind) };
        Kind::PacketReplicationEngineEntry(entry)
    };
    let entries = p4::TableEntry {
        counter_data: Some(p4::CounterData::default()),
        meter_config: Some(p4::MeterConfig::default()),
        ..p4::TableEntry::default()
    };
    let defaults = p4::TableEntry {
        is_default_action: true,
        ..entries.clone()
    };
    let mut requests = vec![
        Kind::ActionProfileMember(p4::ActionProfileMember::default()),
        Kind::ActionProfileGroup(p4::ActionProfileGroup::default()),
        Kind::TableEntry(entries),
        Kind::TableEntry(defaults),
        Kind::MeterEntry(p4::MeterEntry::default()),
        Kind::CounterEntry(p4::CounterEntry::default()),
        replication(Replication::MulticastGroupEntry(Default::default())),
        replication(Replication::CloneSessionEntry(Default::default())),
        Kind::ValueSetEntry(p4::ValueSetEntry::default()),
        Kind::DigestEntry(p4::DigestEntry::default()),
    ];
    let registers = catalog.registers.values();
    let readable = registers.filter(|register| register.shape.check().is_ok());
    requests.extend(readable.map(|register| {
        Kind::RegisterEntry(p4::RegisterEntry {
            register_id: register.id,
            ..p4::RegisterEntry::default()
        })
    }));
    requests
}

/// The updates that write an entity to another program; empty if there is nothing to write.
///
/// Counters that the new program lacks are dropped, and so are units that it does not count:
/// they do not affect forwarding.
fn updates_of(entity: Kind, from: &Store, to: &Store) -> Vec<p4::Update> {
    if from.is_absent(&entity) {
        return Vec::new();
    }
    let (kind, entity) = match entity {
        Kind::TableEntry(entry) => return entry_updates_of(entry, from, to),
        Kind::MeterEntry(entry) if entry.config.is_none() => return Vec::new(),
        Kind::CounterEntry(mut entry) => {
            let counter = to.catalog().counters.get(&entry.counter_id);
            let index = entry.index.as_ref().map_or(0, |index| index.index);
            let counter = counter.filter(|counter| (index as u64) < counter.size);
            entry.data = counter.and_then(|counter| counted(entry.data, counter));
            if entry.data.is_none() || to.is_absent(&Kind::CounterEntry(entry)) {
                return Vec::new();
            }
            (Type::Modify, Kind::CounterEntry(entry))
        }
        Kind::RegisterEntry(entry) if is_zero(&entry, from.catalog()) => return Vec::new(),
        Kind::ValueSetEntry(entry) if entry.members.is_empty() => return Vec::new(),
        entity @ (Kind::MeterEntry(_) | Kind::RegisterEntry(_) | Kind::ValueSetEntry(_)) => {
            (Type::Modify, entity)
        }
        entity => (Type::Insert, entity),
    };
    vec![update(kind, entity)]
}

/// The same for a table entry with its counter and meter.
///
/// Counter and meter have their own updates: those of a constant entry can be written although
/// the entry cannot.
fn entry_updates_of(mut entry: p4::TableEntry, from: &Store, to: &Store) -> Vec<p4::Update> {
    let catalog = to.catalog();
    let table = catalog.tables.get(&entry.table_id);
    let counter = table.and_then(|table| catalog.direct_counters.get(&table.direct_counter?));
    let count = counter.and_then(|counter| counted(entry.counter_data, counter));
    entry.counter_data = None;
    let config = entry.meter_config.take();
    let name = p4::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        ..p4::TableEntry::default()
    };
    let mut updates = Vec::new();
    match (entry.is_default_action, entry.is_const) {
        (true, _) if !from.has_own_default(entry.table_id) => return Vec::new(),
        (true, _) => updates.push(update(Type::Modify, Kind::TableEntry(entry))),
        (false, true) if !to.has_entry(&entry) => return Vec::new(),
        (false, true) => {}
        (false, false) => {
            let kind = match to.has_entry(&entry) {
                true => Type::Modify,
                false => Type::Insert,
            };
            updates.push(update(kind, Kind::TableEntry(entry)));
        }
    }
    if let Some(data) = count {
        let entry = p4::DirectCounterEntry {
            table_entry: Some(name.clone()),
            data: Some(data),
        };
        updates.push(update(Type::Modify, Kind::DirectCounterEntry(entry)));
    }
    if config.is_some() {
        let entry = p4::DirectMeterEntry {
            table_entry: Some(name),
            config,
            counter_data: None,
        };
        updates.push(update(Type::Modify, Kind::DirectMeterEntry(entry)));
    }
    updates
}

/// The units of a count that the counter counts; `None` if they are zero.
fn counted(data: Option<p4::CounterData>, counter: &Counter) -> Option<p4::CounterData> {
    let data = data?;
    let kept = p4::CounterData {
        byte_count: if counter.has_bytes {
            data.byte_count
        } else {
            0
        },
        packet_count: if counter.has_packets {
            data.packet_count
        } else {
            0
        },
    };
    Some(kept).filter(|kept| *kept != p4::CounterData::default())
}

/// Whether a register has its initial value.
fn is_zero(entry: &p4::RegisterEntry, catalog: &Catalog) -> bool {
    let register = catalog.registers.get(&entry.register_id);
    register.is_some_and(|register| {
        let zeros = vec![Value::from(0); register.shape.widths().len()];
        register.shape.to_data(&zeros) == entry.data
    })
}

fn update(kind: Type, entity: Kind) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    }
}
