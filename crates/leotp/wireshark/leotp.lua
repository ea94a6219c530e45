-- Wireshark dissector for LEOTP version 2 (docs/reference/leotp-wire.md).
-- Use: wireshark -X lua_script:leotp.lua   (UDP port 5047; preference leotp.port)

local leotp = Proto("leotp", "LEOTP")

local types = { [1] = "Interest", [2] = "Data", [3] = "Void Packet Header" }
local f = leotp.fields
f.version = ProtoField.uint8("leotp.version", "Version", base.DEC, nil, 0xf0)
f.type = ProtoField.uint8("leotp.type", "Type", base.DEC, types, 0x0f)
f.flags = ProtoField.uint8("leotp.flags", "Flags", base.HEX)
f.fin = ProtoField.bool("leotp.flags.fin", "End of flow", 8, nil, 0x01)
f.rtx = ProtoField.bool("leotp.flags.rtx", "Repair", 8, nil, 0x02)
f.fresh = ProtoField.bool("leotp.flags.fresh", "Past caches", 8, nil, 0x04)
f.owdset = ProtoField.bool("leotp.flags.owd", "Interest OWD present", 8, nil, 0x08)
f.bare = ProtoField.bool("leotp.flags.bare", "No news of rate", 8, nil, 0x10)
f.padlength = ProtoField.uint16("leotp.padding_length", "Padding length", base.DEC)
f.queued = ProtoField.uint16("leotp.queued", "Time queued (64 us)", base.DEC)
f.tag = ProtoField.uint16("leotp.tag", "Clock tag", base.HEX)
f.flow = ProtoField.uint64("leotp.flow", "Flow", base.HEX)
f.start = ProtoField.uint64("leotp.start", "Range start", base.DEC)
f.finish = ProtoField.uint64("leotp.end", "Range end", base.DEC)
f.timestamp = ProtoField.uint64("leotp.timestamp", "Sender's clock (ns)", base.DEC)
f.clock = ProtoField.uint32("leotp.clock", "Sender's clock (64 ns)", base.DEC)
f.rate = ProtoField.uint64("leotp.rate", "Send rate (bit/s)", base.DEC)
f.owd = ProtoField.int32("leotp.owd", "Interest OWD (64 ns, clocks' difference included)", base.DEC)
f.payload = ProtoField.bytes("leotp.payload", "Payload")
f.padding = ProtoField.bytes("leotp.padding", "Padding")

local bad = ProtoExpert.new("leotp.malformed", "Not a valid LEOTP packet", expert.group.MALFORMED, expert.severity.ERROR)
leotp.experts = { bad }
leotp.prefs.port = Pref.uint("UDP port", 5047, "UDP port of LEOTP")

-- Bytes before padding or payload, by type.
local LENGTH = { [1] = 46, [2] = 30, [3] = 38 }

function leotp.dissector(buf, pinfo, tree)
  if buf:len() < 22 then return 0 end
  local version, kind = bit.rshift(buf(0, 1):uint(), 4), bit.band(buf(0, 1):uint(), 0x0f)
  if version ~= 2 or not types[kind] then return 0 end
  local header = LENGTH[kind]
  pinfo.cols.protocol = "LEOTP"
  local t = tree:add(leotp, buf())
  t:add(f.version, buf(0, 1))
  t:add(f.type, buf(0, 1))
  local flags = t:add(f.flags, buf(1, 1))
  flags:add(f.rtx, buf(1, 1))
  if kind == 1 then
    flags:add(f.fresh, buf(1, 1))
    flags:add(f.bare, buf(1, 1))
    t:add(f.padlength, buf(2, 2))
  else
    flags:add(f.fin, buf(1, 1))
    flags:add(f.owdset, buf(1, 1))
    t:add(f.queued, buf(2, 2))
  end
  t:add(f.tag, buf(4, 2))
  t:add(f.flow, buf(6, 8))
  t:add(f.start, buf(14, 8))
  local more = buf:len() - header
  local wrong = more < 0 or kind == 1 and more ~= buf(2, 2):uint() or kind == 3 and more ~= 0
  if wrong then
    t:add_proto_expert_info(bad, "not as long as it must be")
    return buf:len()
  end
  local first = buf(14, 8):uint64()
  local last
  if kind == 2 then
    last = first + more
    t:add(f.finish, last):set_generated()
  else
    local at = kind == 1 and 22 or 30
    last = buf(at, 8):uint64()
    t:add(f.finish, buf(at, 8))
  end
  if kind == 1 then
    t:add(f.timestamp, buf(30, 8))
    t:add(f.rate, buf(38, 8))
  else
    t:add(f.clock, buf(22, 4))
    t:add(f.owd, buf(26, 4))
  end
  if more > 0 then t:add(kind == 1 and f.padding or f.payload, buf(header, more)) end
  local meta = first >= UInt64(0, 0x40000000)
  local what = meta and "metadata" or string.format("[%s, %s)", tostring(first), tostring(last))
  local fl = buf(1, 1):uint()
  local extra = (bit.band(fl, 2) ~= 0 and " repair" or "") .. (kind ~= 1 and bit.band(fl, 1) ~= 0 and " end" or "")
  if kind == 1 then extra = extra .. string.format(" rate %.3f Mbit/s", buf(38, 8):uint64():tonumber() / 1e6) end
  pinfo.cols.info = string.format("%s %s %s%s", types[kind], tostring(buf(6, 8):bytes()), what, extra)
  return buf:len()
end

local attached
local function attach()
  local udp = DissectorTable.get("udp.port")
  if attached then udp:remove(attached, leotp) end
  attached = leotp.prefs.port
  udp:add(attached, leotp)
end

function leotp.prefs_changed()
  attach()
end

attach()
