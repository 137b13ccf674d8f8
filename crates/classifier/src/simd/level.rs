//! Compiles one source for several processors and chooses among them at run time.
//!
//! The compiler turns loops over short arrays into vector instructions if it may use them. So
//! there is one source for all processors, and [`Level::run`] compiles it once for each set of
//! instructions. Results cannot differ between levels where arithmetic is exact: integers, or
//! floating-point numbers that never round.
//!
//! Code that the compiler does not find by itself is written for each set
//! ([`Simd`](super::Simd)). The work receives the set that it runs with.

#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Plain, Simd};

/// A set of instructions that this processor has.
///
/// A set that it lacks cannot be constructed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level(pub(super) Instructions);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// A piece of work; `run` and the functions it calls must be `#[inline(always)]`.
pub(crate) trait Work {
    /// The result.
    type Output;

    /// Does the work with these instructions.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Level {
    /// The instructions that every processor of the target has.
    pub const PLAIN: Level = Level(Instructions::Plain);

    /// All levels of this processor, the plainest first.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level::PLAIN];
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx2() {
                levels.push(Level(Instructions::Avx2));
            }
            if has_avx2() && has_avx512() {
                levels.push(Level(Instructions::Avx512));
            }
        }
        levels
    }

    /// The last of the available levels.
    pub fn best() -> Level {
        Level::available().pop().unwrap_or(Level::PLAIN)
    }

    /// The level's name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
        }
    }

    /// Whether masks by number ([`lanes`](super::lanes)) have special instructions.
    ///
    /// Without them a loop over numbers is slower than reading full masks.
    pub(crate) fn looks_up_masks(self) -> bool {
        match self.0 {
            Instructions::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => true,
        }
    }

    /// Does the work with these instructions.
    #[inline(always)]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Instructions::Plain => work.run(Plain),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: only `available` makes levels, and it has checked all of these features.
            Instructions::Avx2 => unsafe { with_avx2(work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the same.
            Instructions::Avx512 => unsafe { with_avx512(work) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Does the work with AVX2.
///
/// # Safety
/// - The processor has the features that `has_avx2` checks.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn with_avx2<W: Work>(work: W) -> W::Output {
    // SAFETY: the caller has checked the features.
    work.run(unsafe { Avx2::new() })
}

/// Does the work with AVX-512.
///
/// # Safety
/// - The processor has the features that `has_avx2` and `has_avx512` check.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn with_avx512<W: Work>(work: W) -> W::Output {
    // SAFETY: the caller has checked the features.
    work.run(unsafe { Avx512::new() })
}
