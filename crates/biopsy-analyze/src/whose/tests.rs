//! Who is who, by table.

use super::Whose::{Library, Plumbing, Program};
use super::{Code, Language, Whose, place};

#[test]
fn names_of_machine_code() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("/srv/router", "route_parcel", Program),
        ("/srv/router", "shop::orders::load", Program),
        ("/srv/router", "(anonymous namespace)::work", Program),
        ("/srv/router", "main", Program),
        ("/srv/router", "read_request", Program),
        ("/srv/router", "update_account.isra.0", Program),
        ("/srv/router", "sort.constprop.0", Program),
        ("/srv/router", "standby::run", Program),
        ("/srv/router", "corelate", Program),
        ("/srv/router", "Python::run", Program),
        ("/srv/router", "luajit_cache", Program),
        ("/srv/router", "router+0x1234", Program),
        ("/srv/router", "std::mutex::lock", Plumbing),
        ("/srv/router", "std::__detail::_Executor<char const*>::_M_dfs", Plumbing),
        ("/srv/router", "__gthread_mutex_lock", Plumbing),
        ("/srv/router", "__pthread_mutex_lock", Plumbing),
        ("/srv/router", "__GI___read", Plumbing),
        ("/srv/router", "__memmove_avx_unaligned_erms", Plumbing),
        ("/srv/router", "_int_free", Plumbing),
        ("/srv/router", "operator new", Plumbing),
        ("/srv/router", "std::sys::sync::mutex::futex::Mutex::lock_contended", Plumbing),
        ("/srv/router", "<i32>::overflowing_add", Plumbing),
        ("/srv/router", "<[T]>::sort_unstable_by", Plumbing),
        ("/srv/router", "<core::slice::iter::Iter<u8> as core::iter::Iterator>::next", Plumbing),
        ("/srv/router", "<alloc::vec::Vec<shop::Order> as core::clone::Clone>::clone", Plumbing),
        ("/srv/router", "<shop::Order as core::fmt::Display>::fmt", Program),
        ("/srv/router", "<str as shop::Price>::price", Program),
        ("/srv/router", "<alloc::vec::Vec<u8> as shop::Sum>::sum", Program),
        ("/srv/router", "<F as core::ops::function::FnOnce<()>>::call_once", Plumbing),
        ("/srv/router", "<fn() -> shop::Order as core::ops::function::FnOnce<()>>::call_once", Plumbing),
        ("/srv/router", "<(u8, shop::Order) as shop::Sum>::sum", Program),
        ("/srv/router", "core::ptr::drop_in_place<shop::Order>", Plumbing),
        ("/srv/router", "rust_begin_unwind", Plumbing),
        ("/srv/router", "core::panicking::panic_bounds_check", Plumbing),
        ("/srv/router", "tokio::runtime::park::Inner::park", Library),
        ("/srv/router", "je_malloc", Library),
        ("/srv/router", "SSL_read", Library),
        ("/srv/router", "uv__fs_open", Library),
        ("/srv/router", "boost::asio::detail::scheduler::run", Library),
        ("/srv/router", "_PyEval_EvalFrameDefault", Library),
        ("/srv/billing", "main.applyDiscount", Program),
        ("/srv/billing", "example.com/net/http.work", Program),
        ("/srv/billing", "net/http.(*conn).serve", Library),
        ("/srv/billing", "sort.Slice", Library),
        ("/srv/billing", "runtime.mallocgc", Library),
        ("/srv/billing", "runtime.gopark", Plumbing),
        ("/srv/billing", "crosscall_amd64", Plumbing),
        ("/srv/billing", "sync.(*Mutex).Lock", Plumbing),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "anything", Plumbing),
        ("libstdc++.so.6.0.30", "libstdc++.so.6.0.30+0x9d8b9", Plumbing),
        ("/usr/lib/x86_64-linux-gnu/libhiredis.so.1.1.0", "redisCommand", Library),
        ("/opt/shop/lib/libcrypto.so.3", "anything", Library),
        ("/opt/shop/lib/libshop.so", "price_of", Program),
        ("/usr/lib/nginx/modules/ngx_shop.so", "price_of", Program),
        ("/usr/bin/python3.11", "gc_collect_main", Library),
        ("/usr/local/bin/node", "anything", Library),
        ("/usr/bin/redis-server", "processCommand", Program),
    ];
    for (module, function, whose) in table {
        let code = Code { module, function: Some(function), ..Code::default() };
        assert_eq!(code.whose(), *whose, "{function} of {module}");
    }
}

#[test]
fn inlined_headers_are_told_by_their_source() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("push", "/usr/include/c++/12/bits/stl_vector.h", Plumbing),
        ("push", "/usr/lib/llvm-15/include/c++/v1/vector", Plumbing),
        ("push", "/rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/alloc/src/vec/mod.rs", Plumbing),
        ("push", "/home/a/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/num/mod.rs", Plumbing),
        ("push", "/home/a/.cargo/registry/src/index.crates.io-6f17d22bba15001f/bytes-1.5.0/src/lib.rs", Library),
        ("push", "/usr/local/include/simdjson.h", Library),
        ("push", "/home/a/shop/include/queue.h", Program),
        ("push", "/home/a/shop/library/queue.rs", Program),
    ];
    for (function, file, whose) in table {
        let code = Code { function: Some(function), file: Some(file), inlined: true, ..Code::default() };
        assert_eq!(code.whose(), *whose, "{file}");
        let real = Code { inlined: false, ..code };
        assert_eq!(real.whose(), Program, "{file}");
    }
}

#[test]
fn frames_of_languages() {
    #[rustfmt::skip]
    let table: &[(Language, &str, &str, Whose)] = &[
        (Language::Python, "Condition.wait", "/usr/lib/python3.11/threading.py", Plumbing),
        (Language::Python, "get", "/usr/lib/python3/dist-packages/pool.py", Library),
        (Language::Python, "run", "/opt/venv/lib/python3.12/site-packages/gunicorn/app/base.py", Library),
        (Language::Python, "render_menu", "/app/menu.py", Program),
        (Language::Python, "<module>", "<string>", Program),
        (Language::Python, "_find_and_load", "<frozen importlib._bootstrap>", Plumbing),
        (Language::Managed, "render_menu", "/app/menu.py", Program),
        (Language::Managed, "wait", "/usr/local/lib/python3.11/threading.py", Plumbing),
        (Language::JavaScript, "readPrice", "/app/prices.js", Program),
        (Language::JavaScript, "emit", "node:events", Plumbing),
        (Language::JavaScript, "next", "/app/node_modules/express/lib/router/index.js", Library),
        (Language::JavaScript, "Promise.then", "", Plumbing),
        (Language::Managed, "emit", "node:events", Plumbing),
        (Language::Go, "runtime.gopark", "/usr/lib/go/src/runtime/proc.go", Plumbing),
        (Language::Go, "net/http.(*conn).serve", "/usr/lib/go/src/net/http/server.go", Library),
        (Language::Go, "example.com/net/http.work", "/src/work.go", Program),
        (Language::Go, "github.com/gin-gonic/gin.(*Context).Next", "/go/pkg/mod/github.com/gin-gonic/gin@v1.9.1/context.go", Library),
        (Language::Go, "main.load[...]", "/src/main.go", Program),
        (Language::Managed, "(stub of the virtual machine)", "", Plumbing),
        (Language::Managed, "(regular expression)", "", Plumbing),
        (Language::JavaScript, "(anonymous)", "/app/booking.js", Program),
        (Language::Native, "(anonymous namespace)::load()", "/src/load.cpp", Program),
        (Language::Java, "java.util.HashMap.resize", "HashMap.java", Library),
        (Language::Java, "java/util/concurrent/locks/LockSupport.park", "", Plumbing),
        (Language::Java, "Scenes.loadTexture", "Scenes.java", Program),
        (Language::Java, "org.springframework.web.servlet.DispatcherServlet.doDispatch", "", Library),
        (Language::Java, "javalin.Server.run", "", Program),
        (Language::Managed, "Ljava/util/HashMap;::get", "", Library),
        (Language::Managed, "System.Threading.Monitor.Wait", "", Plumbing),
        (Language::Managed, "System.Text.RegularExpressions.Regex.IsMatch", "", Library),
        (Language::Managed, "Shop.Orders.Load", "", Program),
        (Language::Managed, "", "", Plumbing),
        (Language::Managed, "java.util.HashMap.resize", "HashMap.java", Library),
        (Language::Managed, "Scenes.loadTexture", "Scenes.java", Program),
    ];
    for (language, function, file, whose) in table {
        let function = Some(*function).filter(|name| !name.is_empty());
        let file = Some(*file).filter(|file| !file.is_empty());
        let code = Code { language: *language, function, file, ..Code::default() };
        assert_eq!(code.whose(), *whose, "{function:?} {file:?}");
    }
}

#[test]
fn the_place_is_the_innermost_of_the_best() {
    let at = |stack: &[Whose]| place(stack.iter().copied());
    assert_eq!(at(&[Plumbing, Library, Program, Library, Program]), Some(2));
    assert_eq!(at(&[Plumbing, Library, Plumbing, Library]), Some(1));
    assert_eq!(at(&[Plumbing, Plumbing]), Some(0));
    assert_eq!(at(&[]), None);
}

#[test]
fn a_version_in_the_path_tells_a_module_of_go_that_was_downloaded() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("github.com/gin-gonic/gin.New", "github.com/gin-gonic/gin@v1.9.1/gin.go", Library),
        ("github.com/gin-gonic/gin.New", "/src/shop/vendor/github.com/gin-gonic/gin/gin.go", Library),
        ("main.run", "/home/me@vps/shop/main.go", Program),
        ("main.run", "/home/me@v/shop/main.go", Program),
        ("go:main.inittasks", "", Plumbing),
        ("type:.eq.main.key", "<autogenerated>", Plumbing),
        ("sort_orders", "/src/main.go", Program),
        ("log/slog.Info", "/usr/lib/go/src/log/slog/logger.go", Library),
        ("sync/atomic.LoadInt64", "", Plumbing),
        ("internal/poll.(*FD).Read", "", Plumbing),
        ("time.Sleep", "", Plumbing),
        ("time.Now", "", Library),
        ("slices.SortFunc[go.shape.int]", "", Library),
        ("main.pick[go.shape.struct { net/http.x int }]", "/src/main.go", Program),
        ("example.com/shop.(*Cart).Add", "/src/cart.go", Program),
    ];
    for (name, file, whose) in table {
        let file = Some(*file).filter(|file| !file.is_empty());
        let code = Code { language: Language::Go, function: Some(name), file, ..Code::default() };
        assert_eq!(code.whose(), *whose, "{name} {file:?}");
    }
}

#[test]
fn files_of_scripts_tell_whose_they_are() {
    #[rustfmt::skip]
    let table: &[(Language, &str, Whose)] = &[
        (Language::Python, "<stdin>", Program),
        (Language::Python, "<ipython-input-3-0123456789ab>", Program),
        (Language::Python, "<frozen posixpath>", Plumbing),
        (Language::Python, "<__array_function__ internals>", Plumbing),
        (Language::Python, "", Plumbing),
        (Language::Python, "/usr/lib/python311.zip/threading.py", Plumbing),
        (Language::Python, "/app/python_tools/run.py", Program),
        (Language::Python, "/usr/lib64/python3.6/json/decoder.py", Plumbing),
        (Language::Python, "/usr/lib64/python3.6/site-packages/yaml/__init__.py", Library),
        (Language::JavaScript, "internal/timers.js", Plumbing),
        (Language::JavaScript, "node_modules/pg/lib/client.js", Library),
        (Language::JavaScript, "/app/internal/timers.js", Program),
        (Language::JavaScript, "file:///app/main.mjs", Program),
        // Beside machine code, by the ending of the file.
        (Language::Native, "/app/menu.py", Program),
        (Language::Native, "/app/node_modules/pg/lib/client.js", Library),
        (Language::Native, "/app/menu.ts", Program),
        (Language::Managed, "<frozen importlib._bootstrap>", Plumbing),
    ];
    for (language, file, whose) in table {
        let code = Code { language: *language, function: Some("run"), file: Some(file), ..Code::default() };
        assert_eq!(code.whose(), *whose, "{language:?} {file}");
    }
}

#[test]
fn assemblies_and_names_of_the_framework_are_no_program() {
    #[rustfmt::skip]
    let table: &[(&str, &str, Whose)] = &[
        ("/srv/Shop.dll", "Shop.Orders.Load", Program),
        ("/usr/share/dotnet/System.Private.CoreLib.dll", "Internal.Console.Write", Library),
        ("/srv/Microsoft.AspNetCore.Routing.dll", "Odd.Name", Library),
        ("/srv/Microsoft.Shop.dll", "Odd.Name", Program),
        ("/srv/Newtonsoft.Json.dll", "Newtonsoft.Json.JsonConvert.SerializeObject", Library),
        ("/srv/Shop.dll", "Systematic.Run", Program),
        ("/srv/Shop.dll", "Internals.Run", Program),
        ("", "IL_STUB_PInvoke", Plumbing),
        ("", "dynamicClass.lambda_method1", Library),
        ("", "System.Threading.Tasks.Task.Wait", Plumbing),
        ("", "System.Threading.Channels.Channel.Read", Library),
        ("", "System.Threading.Thread.StartCallback", Plumbing),
        ("", "(anonymous)", Program),
        ("", "(dynamic stub)", Plumbing),
        ("[javascript]", "RegExp.test", Plumbing),
    ];
    for (module, name, whose) in table {
        let code = Code { language: Language::Managed, module, function: Some(name), ..Code::default() };
        assert_eq!(code.whose(), *whose, "{name} of {module}");
    }
    for (module, is) in [("libcoreclr.so", true), ("libclrgc.so", true), ("libclrjit.so", false), ("", false)]
    {
        assert_eq!(super::dotnet::is_runtime_module(module), is, "{module}");
    }
    for (name, is) in [("Shop.Run", true), ("System.Int32.Parse", false), ("0x7f00", false), ("", true)] {
        assert_eq!(super::dotnet::is_application(name), is, "{name}");
    }
}

#[test]
fn names_of_libraries_that_a_program_carries() {
    #[rustfmt::skip]
    let table: &[(&str, Whose)] = &[
        ("PyObject_Call", Library),
        ("Pyramid_build", Program),
        ("PyramidBuild", Program),
        ("Python::run", Program),
        ("_Py_Dealloc", Library),
        ("do_sleep", Plumbing),
        ("sleep_until", Plumbing),
        ("sleepy", Program),
        ("__read_nocancel", Plumbing),
        ("read@@GLIBC_2.2.5", Plumbing),
        ("__memcpy_ssse3_back", Plumbing),
        ("__strlen_avx2", Plumbing),
        ("strlen_of_order", Program),
        ("work [clone .cold]", Program),
        ("malloc.part.0", Plumbing),
        ("&mut shop::Order", Program),
        ("<&mut alloc::vec::Vec<u8> as shop::Sum>::sum", Program),
        ("<dyn shop::Price>::price", Program),
        ("<*const u8>::add", Plumbing),
        ("<[u8; 4] as shop::Sum>::sum", Program),
        ("<A as core::iter::Iterator>::next", Plumbing),
        ("<signal handler called>", Plumbing),
        ("serde_json::from_str", Library),
        ("tower_defence::run", Program),
        ("tower::Service::call", Library),
    ];
    for (function, whose) in table {
        let code = Code { module: "/srv/router", function: Some(function), ..Code::default() };
        assert_eq!(code.whose(), *whose, "{function}");
    }
    for (module, whose) in [
        ("/usr/lib/x86_64-linux-gnu/libshop.so.1 (deleted)", Library),
        ("/usr/lib/x86_64-linux-gnu/shop/libshop.so", Program),
        ("/nix/store/0abc-zlib-1.3/lib/libfoo.so.1", Library),
        ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", Library),
        ("/srv/shop/_fast.cpython-311-x86_64-linux-gnu.so", Program),
        ("/opt/venv/lib/python3.11/site-packages/numpy/_multiarray.cpython-311.so", Library),
        ("/usr/lib/python3/dist-packages/_cffi_backend.cpython-311-x86_64-linux-gnu.so", Library),
        ("/usr/bin/php8.2", Library),
        ("/usr/bin/php-shop", Program),
        ("[vdso]", Plumbing),
        ("memfd:biopsy-preload", Plumbing),
        ("/lib/ld-musl-x86_64.so.1", Plumbing),
        ("", Program),
    ] {
        let code = Code { module, function: Some("work"), ..Code::default() };
        assert_eq!(code.whose(), whose, "{module}");
    }
}
