//! One source, compiled for several processors: the choice is made when the program runs.
//!
//! Loops over arrays of a few words become vector instructions by themselves, if only the compiler
//! may use them. So there is one source for all of them; [`Level::run`] compiles it anew for each
//! set of instructions. Its result cannot differ between levels where arithmetic is exact: that of
//! integers, or of floating-point numbers that never round.
//!
//! What the compiler does not see by itself is written for each set ([`Simd`](super::Simd)); the work
//! is given the set it runs with.

#[cfg(target_arch = "x86_64")]
use super::vector::{Avx2, Avx512};
use super::vector::{Plain, Simd};

/// A set of instructions that this processor has.
///
/// There is no way to get one that it does not have.
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

/// Something to do; `run` and what it calls are to be `#[inline(always)]`.
pub(crate) trait Work {
    /// What comes out.
    type Output;

    /// Does it with these instructions.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

impl Level {
    /// What every processor of the target has.
    pub const PLAIN: Level = Level(Instructions::Plain);

    /// All that this processor has, the plainest first.
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

    /// The last of those that are available.
    pub fn best() -> Level {
        Level::available().pop().unwrap_or(Level::PLAIN)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
        }
    }

    /// Whether there are instructions that look up masks by number ([`lanes`](super::lanes)); a loop
    /// over them takes longer than to read masks that are written out.
    pub(crate) fn looks_up_masks(self) -> bool {
        match self.0 {
            Instructions::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => true,
        }
    }

    /// Does work with these instructions.
    #[inline(always)]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Instructions::Plain => work.run(Plain),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: levels are only made by `available`, which has asked for all of these.
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

/// Does work with AVX2.
///
/// # Safety
/// - The processor has what `has_avx2` asks for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn with_avx2<W: Work>(work: W) -> W::Output {
    // SAFETY: the caller has asked for them.
    work.run(unsafe { Avx2::new() })
}

/// Does work with AVX-512.
///
/// # Safety
/// - The processor has what `has_avx2` and `has_avx512` ask for.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn with_avx512<W: Work>(work: W) -> W::Output {
    // SAFETY: the caller has asked for them.
    work.run(unsafe { Avx512::new() })
}
