//! SQLite's own file system with a record of what it is asked to write.
//!
//! A file of this one is a header and, behind it, a file of the original, to which everything is passed on.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use rusqlite::ffi::{
    SQLITE_OK, SQLITE_OPEN_DELETEONCLOSE, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

use super::record;

/// The header of a file.
#[repr(C)]
struct Recorded {
    base: sqlite3_file,
    /// Its path, leaked; none for one that vanishes when it is closed.
    name: Option<&'static str>,
}

/// A multiple of the alignment that SQLite gives its files.
const HEADER: usize = size_of::<Recorded>().next_multiple_of(8);

struct Original(*mut sqlite3_vfs);

// SAFETY: SQLite's file systems live as long as the process and may be used by any thread.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

static ORIGINAL: OnceLock<Original> = OnceLock::new();

/// Makes this the file system of every database that is opened from here on.
pub fn register() {
    // SAFETY: `find` returns a valid file system or null; its copy is leaked, so that it lives as long as SQLite wants.
    unsafe {
        let original = sqlite3_vfs_find(std::ptr::null());
        assert!(!original.is_null(), "SQLite has no file system");
        let mut own = std::ptr::read(original);
        assert!(ORIGINAL.set(Original(original)).is_ok(), "it is registered");
        own.pNext = null_mut();
        own.zName = c"recorded".as_ptr();
        own.szOsFile += c_int::try_from(HEADER).unwrap();
        own.xOpen = Some(open);
        own.xDelete = Some(delete);
        assert_eq!(sqlite3_vfs_register(Box::into_raw(Box::new(own)), 1), SQLITE_OK);
    }
}

fn original() -> *mut sqlite3_vfs {
    ORIGINAL.get().unwrap().0
}

/// # Safety
/// `name` is null or a C string that lives as long as the result is used.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap())
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes, which are ours and those of the original; names are C strings.
    unsafe {
        let own = file.cast::<Recorded>();
        (*own).base.pMethods = std::ptr::null();
        let inner = inner(file);
        (*inner).pMethods = std::ptr::null();
        let opened = (*original()).xOpen.unwrap()(original(), name, inner, flags, out);
        let named = text(name.cast()).filter(|_| flags & SQLITE_OPEN_DELETEONCLOSE == 0);
        let name = named.map(|name| -> &'static str { Box::leak(name.to_owned().into_boxed_str()) });
        std::ptr::addr_of_mut!((*own).name).write(name);
        if !(*inner).pMethods.is_null() {
            (*own).base.pMethods = &raw const METHODS;
        }
        opened
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: the name is a C string.
    unsafe {
        let named = text(name).unwrap_or_default();
        let delete = || (*original()).xDelete.unwrap()(original(), name, sync);
        record::around(b'd', named, 0, &[], delete)
    }
}

/// # Safety
/// `file` is one that [`open`] was given.
unsafe fn inner(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the original's file stands behind the header.
    unsafe { file.cast::<u8>().add(HEADER).cast() }
}

/// # Safety
/// `file` is one that [`open`] has opened.
unsafe fn recorded<T>(
    file: *mut sqlite3_file,
    (kind, number, bytes): (u8, u64, &[u8]),
    deed: impl FnOnce() -> T,
) -> T {
    // SAFETY: the header was written by `open`.
    match unsafe { (*file.cast::<Recorded>()).name } {
        Some(name) => record::around(kind, name, number, bytes, deed),
        None => deed(),
    }
}

macro_rules! passed_on {
    ($($name:ident: $method:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $arg: $type)*) $(-> $result)? {
            // SAFETY: SQLite calls this for files that `open` has opened, whose inner file has these methods.
            unsafe {
                let inner = inner(file);
                (*(*inner).pMethods).$method.unwrap()(inner $(, $arg)*)
            }
        }
    )*};
}

passed_on! {
    close: xClose() -> c_int;
    read: xRead(to: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int;
    pass_write: xWrite(from: *const c_void, amount: c_int, offset: sqlite3_int64) -> c_int;
    pass_truncate: xTruncate(size: sqlite3_int64) -> c_int;
    pass_sync: xSync(flags: c_int) -> c_int;
    file_size: xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock: xLock(level: c_int) -> c_int;
    unlock: xUnlock(level: c_int) -> c_int;
    check_reserved_lock: xCheckReservedLock(found: *mut c_int) -> c_int;
    file_control: xFileControl(what: c_int, argument: *mut c_void) -> c_int;
    sector_size: xSectorSize() -> c_int;
    device_characteristics: xDeviceCharacteristics() -> c_int;
    shm_map: xShmMap(page: c_int, size: c_int, extend: c_int, to: *mut *mut c_void) -> c_int;
    shm_lock: xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier: xShmBarrier();
    shm_unmap: xShmUnmap(delete: c_int) -> c_int;
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives `amount` bytes; see `passed_on`.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(amount).unwrap());
        let what = (b'w', offset.cast_unsigned(), bytes);
        recorded(file, what, || pass_write(file, from, amount, offset))
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: see `passed_on`.
    unsafe {
        recorded(file, (b't', size.cast_unsigned(), &[]), || {
            pass_truncate(file, size)
        })
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see `passed_on`.
    unsafe { recorded(file, (b's', 0, &[]), || pass_sync(file, flags)) }
}

/// Version 2: without pages that are mapped, which nobody could record.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
