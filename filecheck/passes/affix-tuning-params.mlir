// RUN: xpaged opt %s -p affix-tuning-params | filecheck %s

// Few query rows: four waves take turns on the keys. The addresses stay as they are.

// CHECK-LABEL: func.func @decode
// CHECK-NEXT:    %keys = rock.deref %kt : memref<1x4096x1xi64> -> memref<1x4096x64xf16>
// CHECK-NEXT:    %values = rock.deref %vt : memref<1x4096x1xi64> -> memref<1x4096x64xf16>
// CHECK-NEXT:    rock.attention{
// CHECK-NEXT:      qk = %q * tr %keys : memref<1x1x64xf16>, memref<1x4096x64xf16>
// CHECK-NEXT:      keyAddresses = (%keys : memref<1x4096x64xf16>)
// CHECK-NEXT:      valueAddresses = (%values : memref<1x4096x64xf16>)
// CHECK-NEXT:      %out = softmax(qk) * %values : memref<1x4096x64xf16> -> memref<1x1x64xf16>
// CHECK-NEXT:    } {params0 = #rock.attention_params<keys_per_tile = 64, query_waves = 1, key_waves = 4, channel_chunk = 64, value_channels = 64, stages = 2, rows_per_wave = 16>}
func.func @decode(%q: memref<1x1x64xf16>, %kt: memref<1x4096x1xi64>, %vt: memref<1x4096x1xi64>, %out: memref<1x1x64xf16>)
    attributes {rock.kernel, arch = "gfx942"} {
  %keys = rock.deref %kt : memref<1x4096x1xi64> -> memref<1x4096x64xf16>
  %values = rock.deref %vt : memref<1x4096x1xi64> -> memref<1x4096x64xf16>
  rock.attention{
    qk = %q * tr %keys : memref<1x1x64xf16>, memref<1x4096x64xf16>
    keyAddresses = (%keys : memref<1x4096x64xf16>)
    valueAddresses = (%values : memref<1x4096x64xf16>)
    %out = softmax(qk) * %values : memref<1x4096x64xf16> -> memref<1x1x64xf16>
  }
  return
}

// Many: the waves share the keys.

// CHECK-LABEL: func.func @prefill
// CHECK:         params0 = #rock.attention_params<keys_per_tile = 64, query_waves = 4, key_waves = 1, channel_chunk = 64, value_channels = 64, stages = 2, rows_per_wave = 16>
func.func @prefill(%q: memref<2x100x64xf16>, %k: memref<2x64x130xf16>, %v: memref<2x130x64xf16>, %out: memref<2x100x64xf16>)
    attributes {rock.kernel, arch = "gfx90a"} {
  rock.attention{
    qk = %q * %k : memref<2x100x64xf16>, memref<2x64x130xf16>
    %out = softmax(qk) * %v : memref<2x130x64xf16> -> memref<2x100x64xf16>
  }
  return
}

// Channels that do not fit are cut evenly, in multiples of 16.

// CHECK-LABEL: func.func @wide
// CHECK:         params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 160, value_channels = 384, stages = 1, rows_per_wave = 16>
func.func @wide(%q: memref<1x5x300xf16>, %k: memref<1x300x7xf16>, %v: memref<1x7x1040xf16>, %out: memref<1x5x1040xf16>)
    attributes {rock.kernel, arch = "gfx942"} {
  rock.attention{
    qk = %q * %k : memref<1x5x300xf16>, memref<1x300x7xf16>
    %out = softmax(qk) * %v : memref<1x7x1040xf16> -> memref<1x5x1040xf16>
  }
  return
}

// A perf_config says how many keys and rows; what is set already stays.

// CHECK-LABEL: func.func @configured
// CHECK:         params0 = #rock.attention_params<keys_per_tile = 64, query_waves = 2, key_waves = 1, channel_chunk = 64, value_channels = 64, stages = 1, rows_per_wave = 16>
// CHECK:         params0 = #rock.attention_params<keys_per_tile = 48, query_waves = 1, key_waves = 1, channel_chunk = 32, value_channels = 32, stages = 1, rows_per_wave = 16>
func.func @configured(%q: memref<2x100x64xf16>, %k: memref<2x64x130xf16>, %v: memref<2x130x64xf16>, %out: memref<2x100x64xf16>)
    attributes {rock.kernel, arch = "gfx942"} {
  rock.attention{
    qk = %q * %k : memref<2x100x64xf16>, memref<2x64x130xf16>
    %out = softmax(qk) * %v : memref<2x130x64xf16> -> memref<2x100x64xf16>
  } {perf_config = "attn:v3:64,64,32,32,32,32,16,1,1,1,2,0,1"}
  rock.attention{
    qk = %q * %k : memref<2x100x64xf16>, memref<2x64x130xf16>
    %out = softmax(qk) * %v : memref<2x130x64xf16> -> memref<2x100x64xf16>
  } {params0 = #rock.attention_params<keys_per_tile = 48, query_waves = 1, key_waves = 1, channel_chunk = 32, value_channels = 32>}
  return
}
