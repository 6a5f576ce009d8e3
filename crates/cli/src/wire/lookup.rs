//! Values for the references of our own configuration: secrets, variables, commands.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use pentad_keeper::{Lookup, SecretName, SecretValue, Secrets};
use pentad_process::{CaptureLimits, CommandSpec, OutputLimits, Spawner, clean_env, run_to_end};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How long a `${cmd:…}` may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Longest value of a `${cmd:…}`.
const COMMAND_BYTES: usize = 64 * 1024;

/// Resolves references against this home and face. Use it on a blocking thread: a command is waited for.
pub struct HomeLookup {
    pub secrets: Secrets,
    pub face: BTreeMap<OsString, OsString>,
    pub spawner: Arc<Spawner>,
    pub runtime: Handle,
}

impl Lookup for HomeLookup {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        self.secrets.get(name).ok().flatten()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.face
            .get(OsStr::new(name))
            .and_then(|value| value.to_str())
            .map(str::to_owned)
    }

    fn command(&self, command: &str) -> Result<String, String> {
        let mut spec = CommandSpec::new("sh", "/", "config");
        spec.args = vec!["-c".into(), command.into()];
        spec.env = clean_env(&self.face, &[]);
        spec.limits.wall = Some(COMMAND_LIMIT);
        let bounds = CaptureLimits {
            head_bytes: COMMAND_BYTES,
            tail_bytes: 0,
            spill: None,
            spill_cap: 0,
        };
        let output = OutputLimits {
            stdout: bounds.clone(),
            stderr: bounds,
        };
        let cancel = CancellationToken::new();
        let run = run_to_end(&self.spawner, spec, None, output, &cancel);
        let finished = self.runtime.block_on(run).map_err(|error| error.to_string())?;
        if let Some(limit) = finished.limit_hit {
            return Err(format!("the command reached its {limit}"));
        }
        if !finished.exit.success() {
            return Err(format!("the command ended with {:?}", finished.exit.code));
        }
        String::from_utf8(finished.stdout.head).map_err(|_| "the command printed no UTF-8".to_owned())
    }
}
