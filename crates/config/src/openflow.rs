//! The section `[openflow]`: where clients and controllers drive the switch.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thalweg_control::TlsFiles;
use thalweg_control::openflow::{
    FailMode, ListenAddress, OpenFlowConfig, Remote, Version, Versions,
};
use thalweg_pipeline::TableLimit;
use thalweg_pipeline::text::parse_subfield;
use thalweg_switch::OpenFlowTable;
use toml::Spanned;

use crate::value::{Number, micros};
use crate::{ConfigError, Result, Source};

/// Connections of clients.
pub(crate) const CONNECTIONS: std::ops::RangeInclusive<u64> = 1..=65_536;
/// Packets a second for one connection; zero for no limit.
pub(crate) const RATES: std::ops::RangeInclusive<u64> = 0..=100_000_000;
/// Numbers of tables.
pub(crate) const TABLES: std::ops::RangeInclusive<u64> = 0..=253;
/// Rules of a table.
pub(crate) const TABLE_RULES: std::ops::RangeInclusive<u64> = 0..=u32::MAX as u64;
/// Bytes of a table's name.
pub(crate) const TABLE_NAME_BYTES: usize = 31;
/// Microseconds of probes and pauses.
pub(crate) const TIMES_US: std::ops::RangeInclusive<u64> = 0..=3_600_000_000;
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenFlowSection {
    #[serde(default)]
    listen: Vec<Spanned<String>>,
    #[serde(default)]
    snoop: Vec<Spanned<String>>,
    #[serde(default)]
    controllers: Vec<Spanned<String>>,
    fail_mode: Option<Spanned<String>>,
    #[serde(default)]
    protocols: Vec<Spanned<String>>,
    datapath_id: Option<Spanned<String>>,
    certificate: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
    authorities: Option<Spanned<PathBuf>>,
    #[serde(default)]
    insecure: bool,
    #[serde(default, deserialize_with = "micros")]
    probe_interval_us: Option<Spanned<Number>>,
    #[serde(default, deserialize_with = "micros")]
    max_backoff_us: Option<Spanned<Number>>,
    packet_in_rate: Option<Spanned<Number>>,
    change_rate: Option<Spanned<Number>>,
    max_connections: Option<Spanned<Number>>,
    #[serde(default)]
    tables: Vec<TableSection>,
}

/// One `[[openflow.tables]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableSection {
    id: Spanned<Number>,
    name: Option<Spanned<String>>,
    limit: Option<Spanned<Number>>,
    overflow: Option<Spanned<String>>,
    #[serde(default)]
    groups: Vec<Spanned<String>>,
}

/// How OpenFlow drives the switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFlowSettings {
    /// The switch's number.
    pub datapath_id: u64,
    /// The server.
    pub server: OpenFlowConfig,
    /// Names and limits of tables, by number.
    pub tables: BTreeMap<u8, OpenFlowTable>,
}

impl Source<'_> {
    /// Reads the section.
    pub(crate) fn openflow(
        &self,
        said: &Spanned<OpenFlowSection>,
        name: &str,
    ) -> Result<OpenFlowSettings> {
        let section = said.get_ref();
        let mut server = OpenFlowConfig {
            listen: self.addresses(&section.listen)?,
            snoop: self.addresses(&section.snoop)?,
            controllers: self
                .each(&section.controllers)?
                .into_iter()
                .map(|remote: Remote| remote.relative_to(self.folder).into())
                .collect(),
            fail_mode: self.fail_mode(section)?,
            tls: self.openflow_tls(section, &said.span())?,
            allows_remote: section.insecure,
            ..OpenFlowConfig::default()
        };
        if server.listen.is_empty() && server.controllers.is_empty() {
            let file = name.replace(['/', '\0'], "_");
            let path = self.path(&PathBuf::from(format!("{file}.mgmt")));
            let address = format!("punix:{}", path.display()).parse::<ListenAddress>();
            let unusable = |error| self.error(&said.span(), error);
            server.listen.push(address.map_err(unusable)?);
        }
        let versions: Vec<Version> = self.each(&section.protocols)?;
        if !versions.is_empty() {
            server.versions = versions.into_iter().collect::<Versions>();
        }
        if let Some(said) = &section.probe_interval_us {
            let interval = self.number("probe_interval_us", said, TIMES_US)?;
            server.probe_interval = (interval > 0).then(|| Duration::from_micros(interval));
        }
        if let Some(said) = &section.max_backoff_us {
            let pause = self.number("max_backoff_us", said, TIMES_US)?;
            server.max_backoff = Duration::from_micros(pause.max(1_000));
        }
        if let Some(said) = &section.packet_in_rate {
            let rate = self.number("packet_in_rate", said, RATES)? as u32;
            server.packet_rate = (rate > 0).then_some(rate);
        }
        if let Some(said) = &section.change_rate {
            let rate = self.number("change_rate", said, RATES)? as u32;
            server.change_rate = (rate > 0).then_some(rate);
        }
        if let Some(said) = &section.max_connections {
            server.connections = self.number("max_connections", said, CONNECTIONS)? as usize;
        }
        let datapath_id = section.datapath_id.as_ref();
        let datapath_id = datapath_id.map(|said| self.datapath_id(said));
        Ok(OpenFlowSettings {
            datapath_id: datapath_id.transpose()?.unwrap_or_else(|| number_of(name)),
            server,
            tables: self.tables(&section.tables)?,
        })
    }

    fn tables(&self, said: &[TableSection]) -> Result<BTreeMap<u8, OpenFlowTable>> {
        let mut tables = BTreeMap::new();
        for section in said {
            let id = self.number("id", &section.id, TABLES)? as u8;
            if tables.insert(id, self.table(section)?).is_some() {
                let what = format!("table {id} is described twice; keep one of them");
                return Err(self.error(&section.id.span(), what));
            }
        }
        Ok(tables)
    }

    fn table(&self, section: &TableSection) -> Result<OpenFlowTable> {
        let name = match &section.name {
            Some(name) if name.get_ref().len() > TABLE_NAME_BYTES => {
                let what = format!("a name of more than {TABLE_NAME_BYTES} bytes; shorten it");
                return Err(self.error(&name.span(), what));
            }
            name => name.as_ref().map(|name| name.get_ref().clone()),
        };
        let limit = section.limit.as_ref();
        let limit = limit.map(|said| self.number("limit", said, TABLE_RULES));
        let evicts = match &section.overflow {
            None => false,
            Some(said) => match said.get_ref().as_str() {
                "refuse" => false,
                "evict" => true,
                other => {
                    let what = format!("overflow `{other}`; write \"refuse\" or \"evict\"");
                    return Err(self.error(&said.span(), what));
                }
            },
        };
        let groups = section.groups.iter().map(|said| {
            let bits = parse_subfield(said.get_ref());
            bits.map_err(|error| self.error(&said.span(), error))
        });
        Ok(OpenFlowTable {
            name: name.unwrap_or_default(),
            limit: TableLimit {
                rules: limit.transpose()?.map(|rules| rules as u32),
                evicts,
                groups: groups.collect::<Result<_>>()?,
            },
        })
    }

    fn addresses(&self, said: &[Spanned<String>]) -> Result<Vec<ListenAddress>> {
        let read: Vec<ListenAddress> = self.each(said)?;
        let read = read.into_iter();
        Ok(read
            .map(|address| address.relative_to(self.folder))
            .collect())
    }

    fn datapath_id(&self, said: &Spanned<String>) -> Result<u64> {
        let text = said.get_ref();
        let number = u64::from_str_radix(text, 16).ok();
        let number = number.filter(|number| text.len() == 16 && *number > 0);
        let what = || format!("datapath_id `{text}`; write 16 hexadecimal digits, not all zero");
        number.ok_or_else(|| self.error(&said.span(), what()))
    }

    /// Reads each text of a list.
    fn each<T>(&self, said: &[Spanned<String>]) -> Result<Vec<T>>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let read = |said: &Spanned<String>| {
            let read = said.get_ref().parse();
            read.map_err(|error: T::Err| self.error(&said.span(), error))
        };
        said.iter().map(read).collect()
    }

    fn fail_mode(&self, section: &OpenFlowSection) -> Result<FailMode> {
        let Some(said) = &section.fail_mode else {
            return Ok(FailMode::default());
        };
        match said.get_ref().as_str() {
            "secure" => Ok(FailMode::Secure),
            "standalone" => Ok(FailMode::Standalone),
            other => {
                let what = format!("fail_mode `{other}`; write \"secure\" or \"standalone\"");
                Err(self.error(&said.span(), what))
            }
        }
    }

    fn openflow_tls(
        &self,
        section: &OpenFlowSection,
        place: &std::ops::Range<usize>,
    ) -> std::result::Result<Option<TlsFiles>, ConfigError> {
        let files = (&section.certificate, &section.key, &section.authorities);
        match files {
            (None, None, None) => Ok(None),
            (Some(certificate), Some(key), Some(authorities)) => Ok(Some(TlsFiles {
                certificate: self.path(certificate.get_ref()),
                key: self.path(key.get_ref()),
                client_authorities: self.path(authorities.get_ref()),
            })),
            _ => {
                let what = "TLS needs certificate, key and authorities; give all three";
                Err(self.error(place, what))
            }
        }
    }
}

/// The number of a switch that is configured without one: made of its name, and the same every
/// time.
fn number_of(name: &str) -> u64 {
    // FNV-1a, 48 bits of it, as a datapath's number has an Ethernet address in its lower bits.
    let mixed = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (mixed & 0xffff_ffff_ffff).max(1)
}
