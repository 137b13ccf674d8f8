//! `[topology]`: the fabrics of a plan.
//!
//! `ft8-10k` may have other numbers of pods, as in the paper's Figure 10. Its 128 servers are
//! then spread over them, and the gateway racks are those of the published code.

use serde::Deserialize;
use thalweg_fabric::FatTree;
use toml::Spanned;

use crate::value::{Number, Several};
use crate::{Result, Source};

/// A fabric of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedTopology {
    /// Its size.
    pub shape: FatTree,
    /// Number of switches that share the memory. With a single pod, cores get none, as in the
    /// published code: no packet passes them.
    pub switches_with_memory: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    kind: Option<Spanned<String>>,
    gateways_per_tor: Option<Spanned<Several<Number>>>,
    pods: Option<Spanned<Several<Number>>>,
    fat_tree: Option<Spanned<FatTreeSection>>,
    leaf_spine: Option<Spanned<LeafSpineSection>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FatTreeSection {
    pods: Number,
    tors_per_pod: Number,
    spines_per_pod: Number,
    core_links_per_spine: Number,
    servers_per_tor: Number,
    gateway_tors: Several<Number>,
    gateways_per_tor: Number,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafSpineSection {
    leaves: Number,
    spines: Number,
    servers_per_leaf: Number,
    gateways: Number,
}

/// Limited by the topology's addresses.
const GATEWAYS: std::ops::RangeInclusive<u64> = 1..=252;

/// Servers of `ft8-10k` for every number of pods.
const FT8_SERVERS: u32 = 128;

/// Possible numbers of pods, with the racks that have gateways.
const FT8_PODS: [(u64, [u32; 4]); 4] = [
    (1, [0, 1, 2, 3]),
    (8, [0, 10, 20, 31]),
    (16, [0, 10, 20, 63]),
    (32, [0, 10, 20, 127]),
];

const ONE_OF: &str =
    "give kind = \"ft8-10k\" or \"ft16-400k\", or [topology.fat_tree], or [topology.leaf_spine]";

impl Source<'_> {
    pub(super) fn topologies(&self, section: &Section) -> Result<Vec<PlannedTopology>> {
        let shapes = match (&section.kind, &section.fat_tree, &section.leaf_spine) {
            (Some(kind), None, None) => self.named(section, kind)?,
            (None, Some(said), None) => {
                self.refuse_counts(section, "in [topology.fat_tree]")?;
                vec![self.checked(said.span(), fat_tree(said.get_ref()))?]
            }
            (None, None, Some(said)) => {
                self.refuse_counts(section, "in [topology.leaf_spine]")?;
                vec![self.checked(said.span(), leaf_spine(said.get_ref()))?]
            }
            (None, None, None) => {
                let end = self.text.len();
                return Err(self.error(&(end..end), format!("no topology; {ONE_OF}")));
            }
            (kind, fat_tree, leaf_spine) => {
                let spans = [
                    kind.as_ref().map(Spanned::span),
                    fat_tree.as_ref().map(Spanned::span),
                    leaf_spine.as_ref().map(Spanned::span),
                ];
                let last = spans.into_iter().flatten().next_back();
                let what = format!("more than one topology; {ONE_OF}");
                return Err(self.error(&last.unwrap_or(0..0), what));
            }
        };
        Ok(shapes.into_iter().map(planned).collect())
    }

    fn named(&self, section: &Section, kind: &Spanned<String>) -> Result<Vec<FatTree>> {
        let gateways = match &section.gateways_per_tor {
            Some(said) => self.numbers("gateways_per_tor", said, GATEWAYS)?,
            None => vec![10],
        };
        let shapes: Vec<FatTree> = match kind.get_ref().as_str() {
            "ft8-10k" => self.ft8(section, &gateways)?,
            "ft16-400k" => {
                if let Some(pods) = &section.pods {
                    let what = "pods are for \"ft8-10k\"; remove them";
                    return Err(self.error(&pods.span(), what));
                }
                let with = |count: &u64| FatTree {
                    gateways_per_tor: *count as u32,
                    ..FatTree::ft16_400k()
                };
                gateways.iter().map(with).collect()
            }
            other => {
                let what = format!("there is no topology {other:?}; {ONE_OF}");
                return Err(self.error(&kind.span(), what));
            }
        };
        let check = |shape| self.checked(kind.span(), shape);
        shapes.into_iter().map(check).collect()
    }

    fn ft8(&self, section: &Section, gateways: &[u64]) -> Result<Vec<FatTree>> {
        let pods = match &section.pods {
            Some(said) => self.numbers("pods", said, 1..=32)?,
            None => vec![8],
        };
        let mut shapes = Vec::new();
        for count in pods {
            let known = FT8_PODS.iter().find(|(pods, _)| *pods == count);
            let Some((_, gateway_tors)) = known else {
                let span = section.pods.as_ref().map_or(0..0, Spanned::span);
                let what = format!("{count} pods: give 1, 8, 16 or 32");
                return Err(self.error(&span, what));
            };
            for &gateways_per_tor in gateways {
                let base = FatTree::ft8_10k(gateways_per_tor as u32);
                shapes.push(FatTree {
                    pods: count as u32,
                    servers_per_tor: FT8_SERVERS / (count as u32 * base.tors_per_pod),
                    gateway_tors: gateway_tors.to_vec(),
                    ..base
                });
            }
        }
        Ok(shapes)
    }

    /// Refuses counts beside a table that has its own.
    fn refuse_counts(&self, section: &Section, place: &str) -> Result<()> {
        let counts = [
            ("gateways_per_tor", &section.gateways_per_tor),
            ("pods", &section.pods),
        ];
        for (key, said) in counts {
            if let Some(said) = said {
                let what = format!("{key} belongs to a kind; give it {place} instead");
                return Err(self.error(&said.span(), what));
            }
        }
        Ok(())
    }

    fn checked(&self, span: std::ops::Range<usize>, shape: FatTree) -> Result<FatTree> {
        match shape.check() {
            Ok(()) => Ok(shape),
            Err(error) => Err(self.error(&span, error)),
        }
    }
}

fn planned(shape: FatTree) -> PlannedTopology {
    let cores = match shape.pods {
        1 => 0,
        _ => shape.spines_per_pod * shape.core_links_per_spine,
    };
    let of_pods = shape.pods * (shape.spines_per_pod + shape.tors_per_pod);
    PlannedTopology {
        shape,
        switches_with_memory: cores + of_pods,
    }
}

/// A number past 32 bits is past every limit, so it may saturate.
fn count(number: Number) -> u32 {
    u32::try_from(number.0).unwrap_or(u32::MAX)
}

fn fat_tree(said: &FatTreeSection) -> FatTree {
    FatTree {
        pods: count(said.pods),
        tors_per_pod: count(said.tors_per_pod),
        spines_per_pod: count(said.spines_per_pod),
        core_links_per_spine: count(said.core_links_per_spine),
        servers_per_tor: count(said.servers_per_tor),
        gateway_tors: said.gateway_tors.values().copied().map(count).collect(),
        gateways_per_tor: count(said.gateways_per_tor),
    }
}

fn leaf_spine(said: &LeafSpineSection) -> FatTree {
    FatTree::leaf_spine(
        count(said.leaves),
        count(said.spines),
        count(said.servers_per_leaf),
        count(said.gateways),
    )
}
