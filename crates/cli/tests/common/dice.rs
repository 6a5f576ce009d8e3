//! Chance that can be repeated.

/// SplitMix64: small, and the same everywhere for one seed.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

/// Returns the seed that `PENTAD_TEST_SEED` gives, or a new one, and says how to repeat it.
pub fn seed() -> u64 {
    let given = std::env::var("PENTAD_TEST_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        u64::from(now.unwrap().subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
    });
    eprintln!("PENTAD_TEST_SEED={seed} repeats this");
    seed
}
