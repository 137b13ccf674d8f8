//! `[[tenant]]`: the tenants of the fabric, and how switches divide their memory among them.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};
use thalweg_fabric::Tenant;
use toml::Spanned;

use super::schemes::SchemeKind;
use crate::value::{Number, list};
use crate::{Result, Source};

/// All sections `[[tenant]]`.
#[derive(Debug, Default)]
pub(super) struct Sections(Vec<Section>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    traffic: Spanned<Number>,
    memory: Option<Spanned<Number>>,
}

const WEIGHTS: RangeInclusive<u64> = 0..=1_000_000;

/// Limited because each tenant has all machines, and their number fills memory.
const MOST_TENANTS: usize = 4_096;

impl<'de> Deserialize<'de> for Sections {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Sections, D::Error> {
        let expected = "a list: write [[tenant]], with two brackets, for each tenant";
        list(deserializer, expected).map(Sections)
    }
}

impl Source<'_> {
    pub(super) fn tenants(
        &self,
        sections: &Sections,
        schemes: &[SchemeKind],
    ) -> Result<Vec<Tenant>> {
        let mut tenants = Vec::new();
        for section in &sections.0 {
            let memory = section.memory.as_ref();
            let memory = memory.map(|said| self.number("memory", said, WEIGHTS));
            tenants.push(Tenant {
                traffic: self.number("traffic", &section.traffic, WEIGHTS)? as u32,
                memory: memory.transpose()?.unwrap_or(1) as u32,
            });
        }
        let Some(last) = sections.0.last() else {
            return match schemes.contains(&SchemeKind::SwitchV2pPartitions) {
                true => {
                    let end = self.text.len();
                    let name = SchemeKind::SwitchV2pPartitions.name();
                    let what =
                        format!("{name} divides memory among tenants; add [[tenant]] sections");
                    Err(self.error(&(end..end), what))
                }
                false => Ok(tenants),
            };
        };
        let place = last.traffic.span();
        if tenants.len() > MOST_TENANTS {
            let what = format!("{} tenants; give at most {MOST_TENANTS}", tenants.len());
            return Err(self.error(&place, what));
        }
        if tenants.iter().all(|tenant| tenant.traffic == 0) {
            return Err(self.error(&place, "nobody sends; give one tenant traffic above 0"));
        }
        if tenants.iter().all(|tenant| tenant.memory == 0) {
            return Err(self.error(&place, "nobody has memory; give one tenant some above 0"));
        }
        Ok(tenants)
    }
}
