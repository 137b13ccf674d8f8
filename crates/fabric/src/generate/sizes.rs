//! Sizes of flows: quantiles of the published traces' sizes.

/// Sizes of flows by quantiles, with a uniform distribution between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sizes(&'static [(f64, u64)]);

impl Sizes {
    /// The published Hadoop trace.
    pub const HADOOP: Sizes = Sizes(&[
        (0.0, 1),
        (0.01, 100),
        (0.05, 298),
        (0.15, 349),
        (0.2, 398),
        (0.3, 499),
        (0.4, 600),
        (0.5, 699),
        (0.6, 1_000),
        (0.65, 1_732),
        (0.7, 7_761),
        (0.75, 36_000),
        (0.8, 45_832),
        (0.85, 68_010),
        (0.9, 119_397),
        (0.95, 307_946),
        (0.97, 865_728),
        (0.98, 1_354_571),
        (0.99, 2_465_248),
        (0.995, 5_954_838),
        (1.0, 9_992_117),
    ]);

    /// The published WebSearch trace.
    pub const WEB_SEARCH: Sizes = Sizes(&[
        (0.0, 7),
        (0.05, 3_531),
        (0.1, 6_812),
        (0.15, 11_174),
        (0.2, 20_131),
        (0.3, 31_094),
        (0.4, 50_942),
        (0.5, 74_091),
        (0.55, 123_209),
        (0.6, 218_840),
        (0.65, 575_331),
        (0.7, 990_402),
        (0.8, 1_987_916),
        (0.85, 3_494_338),
        (0.9, 4_992_938),
        (0.95, 8_651_571),
        (0.97, 11_192_263),
        (0.98, 17_070_959),
        (0.99, 24_076_079),
        (1.0, 29_938_393),
    ]);

    /// The size below which this share of all flows is; `share` is 0 to 1.
    pub fn quantile(self, share: f64) -> u64 {
        let next = self.0.partition_point(|(quantile, _)| *quantile < share);
        let next = next.clamp(1, self.0.len() - 1);
        let ((low, least), (high, most)) = (self.0[next - 1], self.0[next]);
        let part = (share - low) / (high - low);
        (least as f64 + part * (most - least) as f64) as u64
    }

    /// The mean size.
    pub fn mean(self) -> f64 {
        let parts = self.0.windows(2).map(|pair| {
            let ((low, least), (high, most)) = (pair[0], pair[1]);
            (high - low) * (least + most) as f64 / 2.0
        });
        parts.sum()
    }
}
