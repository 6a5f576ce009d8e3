//! The home's own key: hashes that are bound to secrets are keyed with it, so that they tell nothing about them.

use std::io;
use std::path::Path;

use pentad_keeper::Home;
use pentad_keeper::durable::replace_file;
use pentad_mcp::StateKey;

const BYTES: usize = 32;

/// Returns the key, making it on first use (0600).
pub fn home_key(home: &Home) -> io::Result<Vec<u8>> {
    let path = home.keys().join("home.key");
    match read(&path) {
        Ok(Some(key)) => Ok(key),
        Ok(None) | Err(_) if !path.exists() => {
            let mut key = [0_u8; BYTES];
            getrandom::fill(&mut key).map_err(io::Error::other)?;
            replace_file(&path, &key, Some(0o600))?;
            // Two first starts may have raced: whoever came last is what stands, for both.
            read(&path).map(|key| key.unwrap_or_default())
        }
        Ok(None) => Err(io::Error::other(format!(
            "{} is damaged; delete it to make a new one",
            path.display()
        ))),
        Err(error) => Err(error),
    }
}

/// Returns what signs the questions that faces of this home put through their clients. It is read when first needed: by
/// then the call that asks has opened the home.
pub fn state_key(home: &Home) -> StateKey {
    let home = home.clone();
    StateKey::read_by(move || home_key(&home))
}

/// Gives the key of `home` to `other`, in which the same launches then have the same names.
pub fn share(home: &Home, other: &Home) -> io::Result<()> {
    replace_file(&other.keys().join("home.key"), &home_key(home)?, Some(0o600))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let key = std::fs::read(path)?;
    Ok((key.len() == BYTES).then_some(key))
}
