//! The `.gcdump` format, which PerfView, Visual Studio and dotnet-gcdump open.
