//! One runtime of an image.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_image::{Image, ReadError};
use biopsy_model::Avma;

use super::cache::Cache;
use super::check::Check;
use super::code::{CodePlaces, ReadyCode};
use super::field::FieldPlaces;
use super::places::Places;
use super::thread::ThreadPlaces;
use super::tier::Tiers;
use super::type_names::{self, Fixed, RawType, WellKnown};
use super::{
    ElementType, Field, FoundRuntime, Memory, Method, MethodDesc, MethodName, Module, Options, RuntimeError,
    TypeHandle, TypeInfo, TypeShape, discover, gc, module, open,
};
use crate::layout::Layout;
use crate::metadata::Table;

/// Generic arguments inside of generic arguments.
const NESTING: usize = 256;
/// Base types of one type.
pub(super) const PARENTS: usize = 256;
/// Cached answers of one kind that are kept; all are dropped when there are more.
const ANSWERS: usize = 1 << 17;
/// Types and methods whose names are kept.
const CACHED_NAMES: usize = 1 << 20;
/// Bytes of names of one kind that are kept: a large server has some ten megabytes of them.
const CACHED_NAME_BYTES: usize = 256 << 20;
/// Types that are read for the name of one: each argument has arguments of its own.
const NEEDED: usize = 1 << 16;

/// One runtime of an image. `Send` and `Sync`: all methods take `&self` and cache what they read.
pub struct Runtime<'i> {
    pub(super) memory: Memory<'i>,
    found: FoundRuntime,
    pub(super) layout: Layout,
    pub(super) options: Options,
    pub(super) places: Places,
    pub(super) threads: ThreadPlaces,
    pub(super) code: CodePlaces,
    pub(super) fields: FieldPlaces,
    pub(super) known: WellKnown,
    gc: Option<Avma>,
    gc_candidates: usize,
    pub(super) checks: Vec<Check>,
    types: Cache<TypeHandle, Arc<TypeInfo>>,
    modules: Cache<Avma, Arc<Module>>,
    pub(super) names: Cache<MethodDesc, Arc<MethodName>>,
    pub(super) field_lists: Cache<TypeHandle, Arc<[Field]>>,
    /// With the look ([`Runtime::forget`]) it was read at.
    pub(super) ready: Cache<u64, (u64, Arc<ReadyCode>)>,
    pub(super) look: AtomicU64,
    pub(super) methods: Cache<Avma, Option<Method>>,
    pub(super) tiers: Mutex<Option<Arc<Tiers>>>,
}

impl fmt::Debug for Runtime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("found", &self.found).finish_non_exhaustive()
    }
}

impl<'i> Runtime<'i> {
    /// As [`Runtime::open`], without the checks: what is read may be nonsense.
    ///
    /// # Errors
    /// As [`Runtime::open`], but for the checks.
    pub fn open_unchecked(
        image: Box<dyn Image + 'i>,
        found: &FoundRuntime,
        options: &Options,
    ) -> Result<Self, RuntimeError> {
        let memory = Memory::new(image, options.files.clone(), options.cached_bytes);
        let (mut layout, table) = open::layout(&memory, found, options)?;
        let places = Places::of(&layout)?;
        let pointer =
            |name: &str| -> Result<TypeHandle, RuntimeError> { Ok(memory.u64(layout.global(name)?)?.into()) };
        let known = WellKnown {
            free: pointer("FreeObjectMethodTable")?,
            string: pointer("StringMethodTable")?,
            object: pointer("ObjectMethodTable")?,
            exception: pointer("ExceptionMethodTable")?,
        };
        let core_library = memory.u64(known.object.at(places.method_table.module)).unwrap_or(0);
        if layout.find_field("Module", "ReadyToRunInfo").is_none()
            || layout.find_field("ReadyToRunInfo", "EntryPointToMethodDescMap").is_none()
        {
            // Not there when everything is compiled at run time (trimmed to IL): nothing is lost then.
            let _ = discover::ready_to_run(&memory, &mut layout, core_library);
        }
        let candidates = gc::candidates(&memory, &table);
        Ok(Self {
            threads: ThreadPlaces::of(&layout)?,
            code: CodePlaces::of(&layout)?,
            fields: FieldPlaces::of(&layout),
            gc: candidates.first().map(|&(_, address)| Avma(address)),
            gc_candidates: candidates.len(),
            places,
            known,
            checks: Vec::new(),
            types: Cache::weighed(CACHED_NAMES, CACHED_NAME_BYTES, |info| {
                info.name.len() + info.arguments.len() * 8
            }),
            modules: Cache::new(options.modules),
            names: Cache::weighed(CACHED_NAMES, CACHED_NAME_BYTES, |name| name.bytes()),
            field_lists: Cache::weighed(ANSWERS, CACHED_NAME_BYTES, |fields| {
                fields.iter().map(|field| size_of::<Field>() + field.name.len()).sum()
            }),
            ready: Cache::new(options.modules),
            look: AtomicU64::new(0),
            methods: Cache::new(ANSWERS),
            tiers: Mutex::new(None),
            memory,
            found: found.clone(),
            layout,
            options: options.clone(),
        })
    }

    /// The image that the runtime is in.
    #[must_use]
    pub fn image(&self) -> &(dyn Image + 'i) {
        self.memory.image()
    }

    /// A number of 4 bytes, from memory or from the file that was mapped there.
    ///
    /// # Errors
    /// The address of the first byte that is missing, and why.
    pub fn read_u32(&self, address: Avma) -> Result<u32, ReadError> {
        self.memory.u32(address.0)
    }

    /// A number of 8 bytes.
    ///
    /// # Errors
    /// As [`Runtime::read_u32`].
    pub fn read_u64(&self, address: Avma) -> Result<u64, ReadError> {
        self.memory.u64(address.0)
    }

    /// Memory of the process, cached.
    pub(crate) fn memory(&self) -> &Memory<'i> {
        &self.memory
    }

    /// Where things are.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What was found: version, path, base.
    #[must_use]
    pub fn found(&self) -> &FoundRuntime {
        &self.found
    }

    /// The checks at load time and how they ended.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Address of `GcDacVars`: what the garbage collector shows to debuggers.
    #[must_use]
    pub fn gc_variables(&self) -> Option<Avma> {
        self.gc
    }

    /// How many slots of `g_dacTable` looked like that; 1 is right.
    pub(super) fn gc_candidates(&self) -> usize {
        self.gc_candidates
    }

    /// Forgets what was read from memory and which code is where; names of types and methods are kept. For a process that goes
    /// on running.
    pub fn forget(&self) {
        self.memory.forget();
        // Tables of functions do not change, and methods are only ever added: they are read again when one is missing.
        self.look.fetch_add(1, Ordering::Relaxed);
        self.methods.clear();
        let mut tiers = self.tiers.lock().unwrap_or_else(PoisonError::into_inner);
        if tiers.as_ref().is_some_and(|tiers| tiers.is_old()) {
            *tiers = None;
        }
    }

    /// One module by the address of its `Module` structure.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn module(&self, address: Avma) -> Result<Arc<Module>, RuntimeError> {
        if let Some(module) = self.modules.get(&address) {
            return Ok(module);
        }
        let module = module::read(&self.memory, &self.places.module, address.0)?;
        Ok(self.modules.put(address, Arc::new(module)))
    }

    /// One module whose metadata has a row: assemblies that are made at run time get more rows, and those that are edited (Edit and
    /// Continue, hot reload) have the new ones elsewhere.
    pub(super) fn module_with(
        &self,
        address: Avma,
        table: Table,
        row: u32,
    ) -> Result<Arc<Module>, RuntimeError> {
        let module = self.module(address)?;
        if module.metadata()?.rows(table) >= row {
            return Ok(module);
        }
        match module::read_edited(&self.memory, &self.places.module, &module) {
            Some(edited) => Ok(self.modules.put(address, Arc::new(edited))),
            None => Ok(module),
        }
    }

    /// What is known of a type.
    ///
    /// # Errors
    /// When there is no method table at that address.
    pub fn type_of(&self, method_table: TypeHandle) -> Result<Arc<TypeInfo>, RuntimeError> {
        if let Some(info) = self.types.get(&method_table) {
            return Ok(info);
        }
        // Types whose names need those behind them first; a stack, not recursion. With each, which of what it needs comes next.
        let mut stack = vec![(method_table, self.raw_type(method_table)?, 0)];
        let mut left = NEEDED;
        while let Some((handle, raw, next)) = stack.last_mut() {
            let handle = *handle;
            let wanted = raw.needs.get(*next).copied().filter(|_| left > 0);
            *next += 1;
            let Some(need) = wanted else {
                let Some((_, raw, _)) = stack.pop() else { break };
                let info = self.named(raw);
                self.types.put(handle, Arc::new(info));
                continue;
            };
            let is_waiting = stack.iter().any(|(waiting, ..)| *waiting == need);
            if is_waiting || stack.len() >= NESTING || self.types.get(&need).is_some() {
                continue;
            }
            left -= 1;
            match self.raw_type(need) {
                Ok(raw) => stack.push((need, raw, 0)),
                Err(_) => {
                    self.types.put(need, Arc::new(unknown(need)));
                }
            }
        }
        self.types.get(&method_table).ok_or_else(|| type_names::no_type(method_table, String::new()))
    }

    fn raw_type(&self, handle: TypeHandle) -> Result<RawType, RuntimeError> {
        type_names::read(&self.memory, &self.places, &self.known, handle)
    }

    fn named(&self, raw: RawType) -> TypeInfo {
        let name_of = |handle: &TypeHandle| -> Arc<str> {
            self.types.get(handle).map_or_else(|| "...".into(), |info| Arc::clone(&info.name))
        };
        let mut info = raw.info;
        info.name = match raw.fixed {
            Fixed::Whole(name) => name.into(),
            Fixed::Suffix(suffix) => {
                let mut name = raw.needs.first().map_or_else(String::new, |need| name_of(need).to_string());
                type_names::push_suffix(&mut name, &suffix);
                name.into()
            }
            Fixed::Metadata => {
                let arguments: Vec<_> = raw.needs.iter().map(name_of).collect();
                match self.type_name(&info, arguments) {
                    Ok(name) => name.into(),
                    Err(_) => format!("?{}", info.method_table.0).into(),
                }
            }
        };
        info
    }

    fn type_name(&self, info: &TypeInfo, mut arguments: Vec<Arc<str>>) -> Result<String, RuntimeError> {
        let module = self.module_with(info.module, Table::TypeDef, info.type_row)?;
        let metadata = module.metadata()?;
        if arguments.is_empty() && !info.arguments.is_empty() {
            let of = type_names::of_type(info.type_row);
            arguments = type_names::variables(metadata, of, info.arguments.len());
        }
        Ok(type_names::compose(&metadata.type_path(info.type_row)?, &arguments))
    }

    /// The type of an object.
    ///
    /// # Errors
    /// As [`Runtime::type_of`].
    pub fn type_of_object(&self, object: Avma) -> Result<Arc<TypeInfo>, RuntimeError> {
        self.type_of(self.method_table_of(object)?)
    }

    /// The first word of an object, without the marks of the collector.
    pub(crate) fn method_table_of(&self, object: Avma) -> Result<TypeHandle, ReadError> {
        self.memory.u64(object.0).map(|word| TypeHandle::from(word & !7))
    }

    /// Whether a type is another one or is derived from it, by method table.
    ///
    /// # Errors
    /// As [`Runtime::type_of`].
    pub fn is_a(&self, method_table: TypeHandle, base: TypeHandle) -> Result<bool, RuntimeError> {
        let mut next = method_table;
        for _ in 0..PARENTS {
            if next == base {
                return Ok(true);
            }
            if next == TypeHandle::default() {
                return Ok(false);
            }
            next = self.memory.u64(next.at(self.places.method_table.parent))?.into();
        }
        Err(RuntimeError::TooMany { what: "base types", limit: PARENTS as u64 })
    }

    /// The text of a string object, at most `chars` UTF-16 units, and its length in units. Contents may be secret: never store
    /// or show them as they are.
    ///
    /// # Errors
    /// When it is not a string, or memory is missing.
    pub fn string(&self, object: Avma, chars: usize) -> Result<(String, u32), RuntimeError> {
        let method_table = self.method_table_of(object)?;
        if method_table != self.known.string {
            return Err(RuntimeError::Unexpected {
                what: "a string",
                address: object,
                found: format!("method table {}", method_table.0),
            });
        }
        let length =
            self.memory.u32(object.0.wrapping_add(self.layout.field("String", "m_StringLength")?.into()))?;
        let first = object.0.wrapping_add(self.layout.field("String", "m_FirstChar")?.into());
        let mut bytes = vec![0; (length as usize).min(chars) * 2];
        self.memory.read(first, &mut bytes)?;
        let units: Vec<_> = bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two)).collect();
        Ok((String::from_utf16_lossy(&units), length))
    }

    /// Bounds that were set.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }
}

/// What stands for a type that cannot be read.
fn unknown(handle: TypeHandle) -> TypeInfo {
    TypeInfo {
        method_table: handle,
        name: format!("?{}", handle.0).into(),
        base_size: 0,
        component_size: 0,
        flags: 0,
        contains_pointers: false,
        collectible: false,
        has_finalizer: false,
        shape: TypeShape::Descriptor,
        element_type: ElementType::default(),
        parent: None,
        module: Avma(0),
        type_row: 0,
        canonical: handle,
        arguments: Vec::new(),
    }
}
