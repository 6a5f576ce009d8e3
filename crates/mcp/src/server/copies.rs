//! The copies of one server: who shares a process or a session, and how many there may be.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pentad_model::{Refusal, RefusalKind, ThreadId};
use pentad_program::Environment;

use super::config::Reach;
use super::core::Core;
use super::instance::Instance;
use super::variant::Variant;

/// Whose process or session a call uses, among callers with equal variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Slot {
    Home,
    Workspace(PathBuf),
    Thread(ThreadId),
}

/// What has a copy of its own.
#[derive(PartialEq, Eq, Hash)]
struct Place {
    /// The launch fingerprint, which differs for callers with other variables.
    fingerprint: String,
    slot: Slot,
}

/// All copies of a server that are alive, or that are remembered because they failed.
#[derive(Default)]
pub struct Copies(Mutex<HashMap<Place, Arc<Instance>>>);

impl Copies {
    /// Returns all of them.
    pub fn all(&self) -> Vec<Arc<Instance>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// Returns the copy for `slot` and for callers with these variables; it is started by whoever takes a lease on it.
    ///
    /// # Errors
    /// Refuses when a variable is missing, and when there are too many copies.
    pub fn copy(
        &self,
        core: &Arc<Core>,
        slot: Slot,
        folder: &Path,
        environment: Option<&Environment>,
    ) -> Result<Arc<Instance>, Refusal> {
        let values = core.config.reach.values(environment);
        let place = Place {
            fingerprint: core.fingerprint(&values),
            slot,
        };
        let mut copies = self.lock();
        if let Some(found) = copies.get(&place) {
            return Ok(Arc::clone(found));
        }
        let alike = copies
            .values()
            .find(|copy| copy.variant.fingerprint == place.fingerprint)
            .map(|copy| Arc::clone(&copy.variant));
        let variant = match alike {
            Some(variant) => variant,
            None => {
                let reach = core.config.reach.reach(&values)?;
                Arc::new(Variant::new(core, reach, place.fingerprint.clone(), &values))
            }
        };
        make_room(&mut copies, core)?;
        let cwd = match &variant.reach {
            Reach::Command(line) => line.cwd.clone(),
            Reach::Url(_) => None,
        };
        let copy = Instance::new(variant, cwd.unwrap_or_else(|| folder.to_owned()));
        copies.insert(place, Arc::clone(&copy));
        Ok(copy)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Arc<Instance>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets copies that rest, if there is no room for another. One that is held back after failures keeps its place: with
/// a new one in its stead, its failures would be forgotten.
fn make_room(copies: &mut HashMap<Place, Arc<Instance>>, core: &Core) -> Result<(), Refusal> {
    let (name, limits) = (&core.config.name, &core.config.limits);
    let most = limits.max_copies.max(1);
    if copies.len() < most {
        return Ok(());
    }
    copies.retain(|_, copy| !copy.is_resting());
    let used = copies.len();
    if used < most {
        return Ok(());
    }
    let failed = copies.values().filter(|copy| copy.is_held_back()).count();
    let which = match failed {
        0 => String::new(),
        failed => format!(", {failed} of which failed"),
    };
    let text = format!(
        "Server '{name}' has {used} copies{which}, and may have {most}: callers with other variables, and threads or folders where they do not share, each need their own."
    );
    let mut refusal = Refusal::new(RefusalKind::TooMany, name, text);
    if failed > 0 {
        refusal = refusal.next_step(format!(
            "a person mends what failed, then runs pentad connect {name} --again"
        ));
    }
    Err(refusal.next_step(format!(
        "repeat the call when a copy has been idle for {} s, or a person raises max_copies in [servers.{name}]",
        limits.idle_timeout.as_secs_f64()
    )))
}
