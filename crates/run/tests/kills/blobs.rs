//! A blob whose writer is killed just before its name is synced.

use crate::process::Mode;
use crate::trial::{End, Fail, Trial};

/// The syncs of folders of a first blob: of the blobs' folder, of the blob's own, and of its name.
const OF_A_BLOB: u64 = 3;

/// Whoever stores the same content again is told that it is safe, so its name and its folders are synced again, though
/// everything is there: a sync that was never done is not made up for by anything else.
pub fn test() {
    let trial = Trial::new("stored-once", false);
    let fail = Fail {
        point: "blob.folder.sync.before".to_owned(),
        nth: OF_A_BLOB,
        mode: Mode::Kill,
    };
    assert_eq!(trial.fail(&fail), Ok(End::Killed));
    let passed = trial.count();
    let (_, syncs) = passed
        .iter()
        .find(|(point, _)| point == "blob.folder.sync.after")
        .unwrap();
    // The result of the run is a second blob, whose folder is another one.
    assert_eq!(*syncs, OF_A_BLOB + OF_A_BLOB - 1, "{passed:?}");
    trial.finish(End::Finished).unwrap();
}
