//! Runs the official conformance suite of the protocol, and reads what it found.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// Longest run of the suite.
const LIMIT: Duration = Duration::from_secs(300);

/// The suite that `./test --setup` installs.
#[derive(Debug, Clone)]
pub struct Suite {
    node: OsString,
    script: OsString,
}

/// Which scenarios to run.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// All that a revision requires, at that revision.
    Requirements(&'a str),
    /// All that there are for a revision, at that revision.
    All(&'a str),
    /// One, at a revision.
    Scenario {
        /// Its name.
        name: &'a str,
        /// The revision.
        revision: &'a str,
    },
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckStatus {
    /// It holds.
    Success,
    /// It does not.
    Failure,
    /// A recommendation is not followed.
    Warning,
    /// It does not apply.
    Skipped,
    /// Something worth knowing.
    Info,
}

/// One check of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Its id.
    pub id: String,
    /// How it ended.
    pub status: CheckStatus,
    /// What is wrong.
    #[serde(default)]
    pub error_message: Option<String>,
}

/// What one run of the suite found.
#[derive(Debug)]
pub struct Findings {
    /// Whether the suite itself is content: what it does not score does not count.
    pub passed: bool,
    /// Checks by scenario.
    pub scenarios: BTreeMap<String, Vec<Check>>,
    /// What the suite printed.
    pub printed: String,
}

impl Findings {
    /// Returns the checks that ended otherwise than as a success, as `scenario: status check: reason`.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (scenario, checks) in &self.scenarios {
            for check in checks {
                let about = match check.status {
                    CheckStatus::Failure | CheckStatus::Warning | CheckStatus::Skipped => check,
                    CheckStatus::Success | CheckStatus::Info => continue,
                };
                let reason = about.error_message.as_deref().unwrap_or_default();
                complaints.push(format!("{scenario}: {:?} {}: {reason}", about.status, about.id));
            }
        }
        complaints
    }

    /// Returns the scenarios with a check that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&str> {
        let failed = |checks: &Vec<Check>| checks.iter().any(|check| check.status == CheckStatus::Failure);
        let scenarios = self.scenarios.iter().filter(|(_, checks)| failed(checks));
        scenarios.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in self.complaints() {
            writeln!(f, "{complaint}")?;
        }
        f.write_str(&self.printed)
    }
}

impl Suite {
    /// Finds the suite. Without it a test has nothing to do, which is a failure wherever it is meant to be.
    ///
    /// # Errors
    ///
    /// Fails when the tools are installed and the suite is not among them.
    pub fn find() -> Result<Option<Self>> {
        let of = |name: &str| {
            let found = std::env::var_os(name);
            let meant = ["CI", "PENTAD_TOOLS"]
                .iter()
                .any(|name| std::env::var_os(name).is_some());
            if found.is_none() {
                let advice = format!("{name} is not set: run ./test --setup and source .tools/env");
                if meant {
                    bail!("{advice}");
                }
                eprintln!("{advice}; nothing is tested");
            }
            Ok(found)
        };
        let (Some(node), Some(script)) = (of("PENTAD_NODE24")?, of("PENTAD_CONFORMANCE")?) else {
            return Ok(None);
        };
        Ok(Some(Self { node, script }))
    }

    /// Runs scenarios against a server.
    ///
    /// # Errors
    ///
    /// Fails when the suite does not run or its results cannot be read; what they say is no error.
    pub fn server(&self, url: &str, selection: Selection<'_>) -> Result<Findings> {
        self.run(["server", "--url", url], "server-", selection)
    }

    /// Runs scenarios against a client, which is started with the URL of a server as its last argument.
    ///
    /// # Errors
    ///
    /// Fails when the suite does not run or its results cannot be read; what they say is no error.
    pub fn client(&self, command: &str, selection: Selection<'_>) -> Result<Findings> {
        self.run(["client", "--command", command], "", selection)
    }

    /// Runs the suite with these words; the folders of its results begin with `prefix`.
    fn run(&self, words: [&str; 3], prefix: &str, selection: Selection<'_>) -> Result<Findings> {
        let folder = tempfile::tempdir()?;
        let results = folder.path().join("results");
        let printed = folder.path().join("printed");
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(words);
        match selection {
            Selection::Requirements(revision) => command.args(["--requirements", revision]),
            Selection::All(revision) => command.args(["--suite", "all", "--spec-version", revision]),
            Selection::Scenario { name, revision } => {
                command.args(["--scenario", name, "--spec-version", revision])
            }
        };
        let out = File::create(&printed)?;
        let mut child = command
            .arg("--output-dir")
            .arg(&results)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(out.try_clone()?)
            .stdout(out)
            .spawn()
            .with_context(|| format!("start {}", self.node.display()))?;
        let status = crate::process::wait_at_most(&mut child, LIMIT);
        if status.is_err() {
            child.kill()?;
            child.wait()?;
        }
        let printed = String::from_utf8_lossy(&std::fs::read(&printed)?).into_owned();
        let status = status.with_context(|| printed.clone())?;
        let mut scenarios = BTreeMap::new();
        collect(&results, &results, prefix, &mut scenarios)?;
        if scenarios.is_empty() {
            bail!("the suite wrote no results: {printed}");
        }
        Ok(Findings {
            passed: status.success(),
            scenarios,
            printed,
        })
    }
}

/// Finds every `checks.json`; the folder that it lies in is named after the scenario and the time.
fn collect(top: &Path, folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<Check>>) -> Result<()> {
    let checks = folder.join("checks.json");
    if checks.exists() {
        let text = std::fs::read_to_string(&checks)?;
        let relative = folder.strip_prefix(top)?.to_string_lossy().into_owned();
        let scenario = without_time(&relative);
        let scenario = scenario.strip_prefix(prefix).unwrap_or(scenario);
        let read: Vec<Check> =
            serde_json::from_str(&text).with_context(|| format!("{}: {text}", checks.display()))?;
        found.insert(scenario.to_owned(), read);
        return Ok(());
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(top, &path, prefix, found)?;
        }
    }
    Ok(())
}

/// Cuts `-2026-11-30T…` off.
fn without_time(name: &str) -> &str {
    let is_time = |at: usize| {
        name.get(at..at + 12).is_some_and(|part| {
            part.bytes().enumerate().all(|(n, byte)| match n {
                0 | 5 | 8 => byte == b'-',
                11 => byte == b'T',
                _ => byte.is_ascii_digit(),
            })
        })
    };
    let at = (0..name.len()).rev().find(|at| is_time(*at));
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read_from_its_folder() {
        for (folder, name) in [
            ("server-tools-list-2026-11-30T14-01-02-003Z", "server-tools-list"),
            ("auth/basic-2026-11-30T14-01-02-003Z", "auth/basic"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_time(folder), name);
        }
    }
}
