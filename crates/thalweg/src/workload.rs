//! What commands that generate a workload ask for, in the same words everywhere.

use clap::ValueEnum;
use thalweg_workload::{Pipeline, PipelineKind, SequenceKind, WorkloadError};

use crate::failure::bad_input;
use crate::number::number;

/// The seed that commands start from when none is given.
pub(crate) const DEFAULT_SEED: u64 = 1;

/// Which pipeline to generate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PipelineArguments {
    /// The shape of the pipeline: its tables and the ways through them
    #[arg(long, visible_alias = "pipeline", value_enum, default_value_t = Kind::Ofd)]
    pub(crate) kind: Kind,
    /// Rules in the pipeline
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = number::<usize>(..))]
    pub(crate) rules: usize,
    /// Tables of a synthetic pipeline
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = number::<u8>(..))]
    pub(crate) tables: u8,
    /// Ways through a synthetic pipeline
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number::<u8>(..))]
    pub(crate) traversals: u8,
}

/// Shapes of pipelines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Cord's OF-DPA: 10 tables, 5 ways through
    Ofd,
    /// The L2L3-ACL pipeline of PISCES: 7 tables, 2 ways through
    Psc,
    /// As many tables and ways through as asked for
    Synthetic,
}

impl PipelineArguments {
    /// The generator's name for it.
    pub(crate) fn pipeline_kind(&self) -> PipelineKind {
        match self.kind {
            Kind::Ofd => PipelineKind::Ofd,
            Kind::Psc => PipelineKind::Psc,
            Kind::Synthetic => PipelineKind::Synthetic {
                tables: self.tables,
                traversals: self.traversals,
            },
        }
    }

    /// Generates the pipeline.
    ///
    /// # Errors
    /// If there is none of that kind and size.
    pub(crate) fn generate(&self, seed: u64) -> anyhow::Result<Pipeline> {
        let pipeline = self.pipeline_kind().generate(self.rules, seed);
        let arguments = match self.kind {
            Kind::Synthetic => "--rules, --tables or --traversals",
            Kind::Ofd | Kind::Psc => "--rules",
        };
        pipeline.map_err(|error| refused(arguments, &error))
    }
}

/// In which order the packets of many flows come.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LocalityArguments {
    /// In which order the packets of the flows come
    #[arg(long, value_enum, default_value_t = Locality::Zipf)]
    pub(crate) locality: Locality,
    /// Zipf's exponent: 0 is uniform, more is more skewed
    #[arg(long, value_name = "S", default_value_t = 1.1)]
    pub(crate) exponent: f64,
}

/// Orders of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Locality {
    /// Each packet any flow
    Uniform,
    /// Some flows are much more popular than others
    Zipf,
    /// Flows start, send in bursts, pause and end, as in traces
    Bursts,
    /// Each flow in turn: the worst case of a cache
    RoundRobin,
}

impl LocalityArguments {
    /// The generator's name for it.
    pub(crate) fn sequence_kind(&self) -> SequenceKind {
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

/// An argument for which the generator can make nothing.
pub(crate) fn refused(argument: &str, error: &WorkloadError) -> anyhow::Error {
    bad_input(format!("{argument}: {error}"))
}
