//! `sample(...)`.

use thalweg_packet::PortId;

use super::ActionReader;
use crate::action::{Action, SampleDirection, Sampling};
use crate::text::error::Parsed;
use crate::text::line::Pair;

impl<'a> ActionReader<'a> {
    /// Reads `sample(probability=P,collector_set_id=ID,obs_domain_id=ID,obs_point_id=ID,
    /// sampling_port=PORT,ingress)`; only the probability must be there.
    pub(super) fn sample(&self, pair: Pair<'a>) -> Parsed<Action> {
        let line = self.line;
        let mut sampling = Sampling {
            probability: 0,
            collector_set: 0,
            domain: 0,
            point: 0,
            port: None,
            direction: None,
        };
        let mut options = line.pairs(pair.value);
        while let Some(option) = options.next()? {
            let value = option.value;
            match option.key {
                "probability" => sampling.probability = line.integer(value)?,
                "collector_set_id" => sampling.collector_set = line.integer(value)?,
                "obs_domain_id" => sampling.domain = line.integer(value)?,
                "obs_point_id" => sampling.point = line.integer(value)?,
                "sampling_port" => {
                    let short = line.set_output(value)? & 0xffff;
                    sampling.port = (short != 0xffff).then_some(PortId(short));
                }
                "ingress" => sampling.direction = Some(SampleDirection::Ingress),
                "egress" => sampling.direction = Some(SampleDirection::Egress),
                _ => {
                    let known = "there are probability, collector_set_id, obs_domain_id, \
                                 obs_point_id, sampling_port, ingress and egress";
                    return Err(line.unknown(option.key, "option of `sample`", known));
                }
            }
        }
        match sampling.probability {
            0 => Err(line.syntax(pair.key, "write sample(probability=P,...), with P above 0")),
            _ => Ok(Action::Sample(Box::new(sampling))),
        }
    }
}
