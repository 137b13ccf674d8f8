//! Arguments shared by the commands that generate a workload.

use clap::ValueEnum;
use thalweg_workload::{Pipeline, PipelineKind, SequenceKind, WorkloadError};

use crate::failure::bad_input;
use crate::number::number;

/// The seed of commands when none is given.
pub const DEFAULT_SEED: u64 = 1;

/// Arguments that choose a pipeline.
#[derive(Clone, Debug, clap::Args)]
pub struct PipelineArguments {
    /// Shape of the pipeline: its tables and the ways through them
    #[arg(long, visible_alias = "pipeline", value_enum, default_value_t = Kind::Ofd)]
    pub kind: Kind,
    /// Rules in the pipeline
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = number::<usize>(..))]
    pub rules: usize,
    /// Tables of a synthetic pipeline
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = number::<u8>(..))]
    pub tables: u8,
    /// Ways through a synthetic pipeline
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number::<u8>(..))]
    pub traversals: u8,
}

/// Shapes of pipelines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Cord's OF-DPA: 10 tables, 5 ways through
    Ofd,
    /// The L2L3-ACL pipeline of PISCES: 7 tables, 2 ways through
    Psc,
    /// Antrea's on a node of a cluster, with connections, services and policies: 31 tables,
    /// 20 ways through
    Ant,
    /// As many tables and ways through as given
    Synthetic,
}

impl PipelineArguments {
    /// The generator's name for this kind.
    pub fn pipeline_kind(&self) -> PipelineKind {
        match self.kind {
            Kind::Ofd => PipelineKind::Ofd,
            Kind::Psc => PipelineKind::Psc,
            Kind::Ant => PipelineKind::Ant,
            Kind::Synthetic => PipelineKind::Synthetic {
                tables: self.tables,
                traversals: self.traversals,
            },
        }
    }

    /// Generates the pipeline.
    ///
    /// # Errors
    /// If there is no pipeline of that kind and size.
    pub fn generate(&self, seed: u64) -> anyhow::Result<Pipeline> {
        let pipeline = self.pipeline_kind().generate(self.rules, seed);
        let arguments = match self.kind {
            Kind::Synthetic => "--rules, --tables or --traversals",
            Kind::Ofd | Kind::Psc | Kind::Ant => "--rules",
        };
        pipeline.map_err(|error| refused(arguments, &error))
    }
}

/// Arguments that choose the order of packets of many flows.
#[derive(Clone, Debug, clap::Args)]
pub struct LocalityArguments {
    /// Order of the packets of the flows
    #[arg(long, value_enum, default_value_t = Locality::Zipf)]
    pub locality: Locality,
    /// Zipf's exponent: 0 is uniform, more is more skewed
    #[arg(long, value_name = "S", default_value_t = 1.1)]
    pub exponent: f64,
}

/// Orders of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Locality {
    /// Each packet belongs to any flow
    Uniform,
    /// Some flows are much more popular than others
    Zipf,
    /// Flows start, send in bursts, pause and end, as in traces
    Bursts,
    /// Each flow in turn: the worst case for a cache
    RoundRobin,
}

impl LocalityArguments {
    /// The generator's name for this order.
    pub fn sequence_kind(&self) -> SequenceKind {
        match self.locality {
            Locality::Uniform => SequenceKind::Uniform,
            Locality::Zipf => SequenceKind::Zipf {
                exponent: self.exponent,
            },
            Locality::Bursts => SequenceKind::TRACE,
            Locality::RoundRobin => SequenceKind::RoundRobin,
        }
    }
}

/// Error for an argument that the generator refuses.
pub fn refused(argument: &str, error: &WorkloadError) -> anyhow::Error {
    bad_input(format!("{argument}: {error}"))
}
