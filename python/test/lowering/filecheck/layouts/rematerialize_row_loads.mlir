// PASSES: assign-layouts{rules=rematerialize-row-loads}
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#wide = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [16, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#flat = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>
// ===
// Each warp loads the row as the matrix has it, behind the first load; stores wait for all of them.
// CHECK: #[[ROWS:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1, 8]
// CHECK-LABEL: tt.func public @row(
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.load {{.*}}{xe.before_stores} : tensor<64x!tt.ptr<bf16>, #ttg.slice<{dim = 0, parent = #[[ROWS]]}>>
// CHECK-NEXT: tt.expand_dims
// CHECK-NEXT: tt.broadcast
tt.func public @row(%p: !tt.ptr<bf16> {tt.divisibility = 16 : i32}) -> tensor<32x64xbf16, #rows> {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #line>
  %s = tt.splat %p : !tt.ptr<bf16> -> tensor<64x!tt.ptr<bf16>, #line>
  %a = tt.addptr %s, %i : tensor<64x!tt.ptr<bf16>, #line>, tensor<64xi32, #line>
  %x = tt.load %a : tensor<64x!tt.ptr<bf16>, #line>
  %c = ttg.convert_layout %x : tensor<64xbf16, #line> -> tensor<64xbf16, #ttg.slice<{dim = 0, parent = #rows}>>
  %e = tt.expand_dims %c {axis = 0 : i32} : tensor<64xbf16, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x64xbf16, #rows>
  %b = tt.broadcast %e : tensor<1x64xbf16, #rows> -> tensor<32x64xbf16, #rows>
  tt.return %b : tensor<32x64xbf16, #rows>
}

// -----
// A row may be a matrix of one row.
// CHECK-LABEL: tt.func public @matrix(
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.load {{.*}}{xe.before_stores} : tensor<1x64x!tt.ptr<bf16>
tt.func public @matrix(%p: !tt.ptr<bf16> {tt.divisibility = 16 : i32}) -> tensor<1x64xbf16, #rows> {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #flat}>>
  %e = tt.expand_dims %i {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #flat}>> -> tensor<1x64xi32, #flat>
  %s = tt.splat %p : !tt.ptr<bf16> -> tensor<1x64x!tt.ptr<bf16>, #flat>
  %a = tt.addptr %s, %e : tensor<1x64x!tt.ptr<bf16>, #flat>, tensor<1x64xi32, #flat>
  %x = tt.load %a : tensor<1x64x!tt.ptr<bf16>, #flat>
  %c = ttg.convert_layout %x : tensor<1x64xbf16, #flat> -> tensor<1x64xbf16, #rows>
  tt.return %c : tensor<1x64xbf16, #rows>
}

// -----
// What the program stores to is exchanged.
// CHECK-LABEL: tt.func public @written(
// CHECK: ttg.convert_layout
tt.func public @written(%p: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %y: bf16) -> tensor<64xbf16, #ttg.slice<{dim = 0, parent = #rows}>> {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #line>
  %s = tt.splat %p : !tt.ptr<bf16> -> tensor<64x!tt.ptr<bf16>, #line>
  %a = tt.addptr %s, %i : tensor<64x!tt.ptr<bf16>, #line>, tensor<64xi32, #line>
  %x = tt.load %a : tensor<64x!tt.ptr<bf16>, #line>
  tt.store %p, %y : !tt.ptr<bf16>
  %c = ttg.convert_layout %x : tensor<64xbf16, #line> -> tensor<64xbf16, #ttg.slice<{dim = 0, parent = #rows}>>
  tt.return %c : tensor<64xbf16, #ttg.slice<{dim = 0, parent = #rows}>>
}

// -----
// So is what each warp would load with many messages.
// CHECK-LABEL: tt.func public @many(
// CHECK: ttg.convert_layout
tt.func public @many(%p: !tt.ptr<bf16>) -> tensor<64xbf16, #ttg.slice<{dim = 0, parent = #wide}>> {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #line>
  %s = tt.splat %p : !tt.ptr<bf16> -> tensor<64x!tt.ptr<bf16>, #line>
  %a = tt.addptr %s, %i : tensor<64x!tt.ptr<bf16>, #line>, tensor<64xi32, #line>
  %x = tt.load %a : tensor<64x!tt.ptr<bf16>, #line>
  %c = ttg.convert_layout %x : tensor<64xbf16, #line> -> tensor<64xbf16, #ttg.slice<{dim = 0, parent = #wide}>>
  tt.return %c : tensor<64xbf16, #ttg.slice<{dim = 0, parent = #wide}>>
}
