-- Wireshark dissector for LEOTP version 3 (docs/reference/leotp-wire.md).
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
f.sparse = ProtoField.bool("leotp.flags.sparse", "Timing in some packets is enough", 8, nil, 0x20)
f.timed = ProtoField.bool("leotp.flags.timed", "Timing present", 8, nil, 0x40)
f.wide = ProtoField.bool("leotp.flags.wide", "Range start in 8 bytes", 8, nil, 0x80)
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

local function has(flags, flag) return bit.band(flags, flag) ~= 0 end

-- An Interest; where it ends, and where its range ends, if it is as long as it must be.
local function interest(buf, t, flags)
  flags:add(f.rtx, buf(1, 1))
  flags:add(f.fresh, buf(1, 1))
  flags:add(f.bare, buf(1, 1))
  flags:add(f.sparse, buf(1, 1))
  if buf:len() < 46 then return end
  t:add(f.start, buf(10, 8))
  t:add(f.finish, buf(18, 8))
  t:add(f.timestamp, buf(26, 8))
  t:add(f.rate, buf(34, 8))
  t:add(f.tag, buf(42, 2))
  t:add(f.padlength, buf(44, 2))
  local padding = buf:len() - 46
  if padding ~= buf(44, 2):uint() then return end
  if padding > 0 then t:add(f.padding, buf(46, padding)) end
  return buf(10, 8):uint64(), buf(18, 8):uint64()
end

-- Data or a Void Packet Header.
local function data(buf, t, flags, fl, vph)
  flags:add(f.fin, buf(1, 1))
  flags:add(f.rtx, buf(1, 1))
  flags:add(f.owdset, buf(1, 1))
  flags:add(f.timed, buf(1, 1))
  flags:add(f.wide, buf(1, 1))
  local width = has(fl, 0x80) and 8 or 4
  local at = 10 + width
  local header = at + (has(fl, 0x40) and 12 or 0)
  if buf:len() < header or has(fl, 8) and not has(fl, 0x40) then return end
  t:add(f.start, buf(10, width))
  if has(fl, 0x40) then
    t:add(f.queued, buf(at, 2))
    t:add(f.tag, buf(at + 2, 2))
    t:add(f.clock, buf(at + 4, 4))
    t:add(f.owd, buf(at + 8, 4))
  end
  local more, first = buf:len() - header, buf(10, width):uint64()
  if vph then
    if more ~= 8 then return end
    t:add(f.finish, buf(header, 8))
    return first, buf(header, 8):uint64()
  end
  t:add(f.finish, first + more):set_generated()
  if more > 0 then t:add(f.payload, buf(header, more)) end
  return first, first + more
end

-- One packet of LEOTP; what it is, in words.
local function packet(buf, tree)
  local version, kind = bit.rshift(buf(0, 1):uint(), 4), bit.band(buf(0, 1):uint(), 0x0f)
  local t = tree:add(leotp, buf)
  t:add(f.version, buf(0, 1))
  t:add(f.type, buf(0, 1))
  local flags, fl = t:add(f.flags, buf(1, 1)), buf(1, 1):uint()
  t:add(f.flow, buf(2, 8))
  local first, last
  if kind == 1 then
    first, last = interest(buf, t, flags)
  else
    first, last = data(buf, t, flags, fl, kind == 3)
  end
  if not first then
    t:add_proto_expert_info(bad, "not as long as it must be")
    return types[kind] .. " malformed"
  end
  local meta = first >= UInt64(0, 0x40000000)
  local what = meta and "metadata" or string.format("[%s, %s)", tostring(first), tostring(last))
  local extra = (has(fl, 2) and " repair" or "") .. (kind ~= 1 and has(fl, 1) and " end" or "")
  if kind == 1 then extra = extra .. string.format(" rate %.3f Mbit/s", buf(34, 8):uint64():tonumber() / 1e6) end
  return string.format("%s %s %s%s", types[kind], tostring(buf(2, 8):bytes()), what, extra)
end

-- Whether a packet of this version begins here.
local function begins(raw, at)
  local byte = raw:byte(at + 1)
  return at + 10 <= #raw and bit.rshift(byte, 4) == 3 and types[bit.band(byte, 0x0f)] ~= nil
end

-- Where the first datagram of a train ends. A capture on the host that sends or receives sees datagrams of equal length
-- before they are parted (GSO) or after they were joined (GRO): in front of each but the first stand type and flow id.
-- An Interest says how long it is; Data does not, so the same 8 bytes of flow id must follow at equal distances.
local function first_length(raw)
  local all = #raw
  if bit.band(raw:byte(1), 0x0f) == 1 then
    local length = all >= 46 and 46 + raw:byte(45) * 256 + raw:byte(46) or all
    return begins(raw, length) and length or all
  end
  local flow, from = raw:sub(3, 10), 11
  while true do
    local found = raw:find(flow, from, true)
    if not found then return all end
    local length, fits = found - 3, true
    for at = length, all - 1, length do
      fits = fits and begins(raw, at) and raw:sub(at + 3, at + 10) == flow
    end
    if fits then return length end
    from = found + 1
  end
end

function leotp.dissector(buf, pinfo, tree)
  local raw = buf:raw()
  if not begins(raw, 0) then return 0 end
  pinfo.cols.protocol = "LEOTP"
  local length, train, what, at = first_length(raw), 0, nil, 0
  while at < #raw do
    local n = math.min(length, #raw - at)
    what = packet(buf(at, n):tvb(), tree)
    at, train = at + n, train + 1
    if train == 1 then pinfo.cols.info = what end
  end
  if train > 1 then pinfo.cols.info:append(string.format(", to %s (%d packets)", what, train)) end
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
