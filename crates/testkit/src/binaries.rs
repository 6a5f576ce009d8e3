//! Finds the fixture programs of this crate, building one that is missing or stale.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, bail};

/// Returns the path of the fixture program `name`, built from the current sources.
///
/// Cargo offers `CARGO_BIN_EXE_*` only to tests of the package that owns the binary, and fixtures serve the tests
/// of every crate. The program lies beside the test's own `deps` folder; it is built when it is older than a source.
///
/// # Errors
///
/// Fails when the test does not run from a cargo target folder, or when the build fails.
pub fn fixture(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("the test's own path is unknown")?;
    let profile_dir = test
        .parent()
        .and_then(Path::parent)
        .with_context(|| format!("{} does not lie in a target folder", test.display()))?;
    let program = profile_dir.join(name);
    if is_current(&program) {
        return Ok(program);
    }
    build(name, profile_dir)?;
    if !program.exists() {
        bail!("cargo built {name}, but {} is missing", program.display());
    }
    Ok(program)
}

/// Compares with the sources of this crate.
fn is_current(program: &Path) -> bool {
    let newest = newest_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let built = program.metadata().and_then(|meta| meta.modified());
    built.is_ok_and(|built| newest.is_none_or(|newest| newest <= built))
}

fn newest_below(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries
        .flatten()
        .filter_map(|entry| {
            if entry.path().is_dir() {
                newest_below(&entry.path())
            } else {
                entry.metadata().and_then(|meta| meta.modified()).ok()
            }
        })
        .max()
}

fn build(name: &str, profile_dir: &Path) -> anyhow::Result<()> {
    let target = profile_dir.parent().context("the profile folder has no parent")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "pentad-testkit",
            "--bin",
            name,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile_dir.ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().context("cargo could not be started")?;
    if !output.status.success() {
        bail!(
            "cargo build of {name} failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
