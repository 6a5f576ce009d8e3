use super::*;

const BUSY: Duration = Duration::from_secs(5);
const SECOND: &str = "ALTER TABLE thread ADD COLUMN colour TEXT; UPDATE thread SET colour = agent;";

/// Fills a folder with the database that a release of this format wrote (`tests/fixtures/v<N>.sql`).
fn written_by(version: usize, folder: &Path) -> PathBuf {
    let fixture = format!("{}/tests/fixtures/v{version}.sql", env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("pentad.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(&std::fs::read_to_string(fixture).unwrap())
        .unwrap();
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .unwrap();
    connection
        .pragma_update(None, "user_version", i32::try_from(version).unwrap())
        .unwrap();
    path
}

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_one(sql, [], |row| row.get(0)).unwrap()
}

fn schema(connection: &Connection) -> Vec<(String, String)> {
    let mut statement = connection
        .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn d14_databases_of_every_release_reach_the_schema_of_this_one() {
    let fresh = tempfile::tempdir().unwrap();
    let fresh = prepare(&fresh.path().join("pentad.db"), MIGRATIONS, BUSY).unwrap();
    for version in 1..=MIGRATIONS.len() {
        let dir = tempfile::tempdir().unwrap();
        let migrated = prepare(&written_by(version, dir.path()), MIGRATIONS, BUSY).unwrap();
        assert_eq!(schema(&migrated), schema(&fresh), "from version {version}");
        assert_eq!(
            number(&migrated, "SELECT count(*) FROM pragma_foreign_key_check"),
            0
        );
        let seq = "SELECT sum(events) FROM thread";
        assert_eq!(
            number(&migrated, seq),
            number(&migrated, "SELECT count(*) FROM event")
        );
    }
}

#[test]
fn an_older_database_is_copied_and_migrated_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = written_by(1, dir.path());
    let first = &MIGRATIONS[..1];
    let two = [MIGRATIONS[0], SECOND];
    let connection = prepare(&path, &two, BUSY).unwrap();
    assert_eq!(number(&connection, "PRAGMA user_version"), 2);
    assert_eq!(
        number(&connection, "SELECT count(*) FROM thread WHERE colour = agent"),
        2
    );
    assert_eq!(header(&path).unwrap(), Some(Format::Version(2)));
    drop(connection);

    let copy = backup_path(&path, 1);
    assert_eq!(header(&copy).unwrap(), Some(Format::Version(1)));
    let copy = Connection::open(copy).unwrap();
    assert_eq!(number(&copy, "SELECT count(*) FROM event"), 3);
    let error = prepare(&path, first, BUSY).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has format 2, and this build reads up to 1"),
        "{error}"
    );
    prepare(&path, &two, BUSY).unwrap();
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = written_by(1, dir.path());
    let orphan = "PRAGMA defer_foreign_keys = ON; DELETE FROM thread WHERE row = 1;";
    for third in ["CREATE TABLE thread (x)", orphan] {
        prepare(&path, &[MIGRATIONS[0], SECOND, third], BUSY).unwrap_err();
        assert_eq!(header(&path).unwrap(), Some(Format::Version(1)), "{third}");
        let connection = prepare(&path, &MIGRATIONS[..1], BUSY).unwrap();
        assert_eq!(number(&connection, "SELECT count(*) FROM thread"), 2);
        assert_eq!(
            number(
                &connection,
                "SELECT count(*) FROM pragma_table_info('thread') WHERE name = 'colour'"
            ),
            0
        );
    }
}

#[test]
fn the_lock_is_waited_for_and_the_wait_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pentad.db");
    let held = lock(&path, BUSY).unwrap();
    let error = prepare(&path, MIGRATIONS, Duration::from_millis(20)).unwrap_err();
    assert!(
        error.to_string().contains("is held by another process"),
        "{error}"
    );
    drop(held);
    prepare(&path, MIGRATIONS, BUSY).unwrap();
}

#[test]
fn owners_of_live_runs_become_executors() {
    let dir = tempfile::tempdir().unwrap();
    let path = written_by(2, dir.path());
    let old = Connection::open(&path).unwrap();
    // Parents stand in the record as "parent" and a byte string; the third run's is null.
    for (row, status, pid, start) in [
        (
            10,
            "running",
            7,
            "A166706172656E7450000102030405060708090A0B0C0D0E0F",
        ),
        (11, "waiting", 7, "A166706172656E74F6"),
        (12, "running", 8, "A166706172656E74F6"),
        (13, "failed", 9, "A166706172656E74F6"),
    ] {
        old.execute(
            "INSERT INTO run VALUES (?1, randomblob(16), 'x', 1, NULL, ?2, unhex(?4), x'a0', 0, ?3, 1, 'b')",
            rusqlite::params![row, status, pid, start],
        )
        .unwrap();
    }
    drop(old);
    let connection = prepare(&path, MIGRATIONS, BUSY).unwrap();
    let pid_of = |row: i64| {
        let sql = "SELECT pid FROM executor WHERE epoch = (SELECT epoch FROM run WHERE row = ?1)";
        connection
            .query_one(sql, [row], |found| found.get::<_, i64>(0))
            .ok()
    };
    assert_eq!([10, 11, 12, 13].map(pid_of), [Some(7), Some(7), Some(8), None]);
    assert_eq!(number(&connection, "SELECT count(*) FROM executor"), 2);
    let parents = "SELECT count(*) FROM run WHERE parent IS NOT NULL";
    assert_eq!(number(&connection, parents), 1);
    let parent: Vec<u8> = connection
        .query_one("SELECT parent FROM run WHERE row = 10", [], |row| row.get(0))
        .unwrap();
    assert_eq!(parent, (0..16).collect::<Vec<u8>>());
}

#[test]
fn a_first_start_that_a_loss_of_power_cut_off_is_begun_again() {
    // The journal says that there was nothing; of the first page only a part reached the disk.
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    for bytes in [4096, 3584, 40] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pentad.db");
        let mut torn = vec![0; bytes];
        torn[bytes - 1] = 7;
        std::fs::write(&path, torn).unwrap();
        let refused = prepare(&path, MIGRATIONS, BUSY).unwrap_err().into_store(&path);
        assert!(
            refused.to_string().contains("is no journal of Pentad"),
            "{refused}"
        );
        std::fs::write(rollback_journal(&path), &journal).unwrap();
        let made = prepare(&path, MIGRATIONS, BUSY).unwrap();
        assert_eq!(number(&made, "SELECT count(*) FROM event"), 0);
    }
}
